// Command benchsim plays a measuring bench: it writes the lines of an encoder to a
// pseudo-terminal or to standard output, so that the server can be tried without one.
//
//	benchsim -rings 40 -mean 1200 -bounce 0.1 | tee /tmp/bench.txt
package main

import (
	"bufio"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"time"
)

// Options say what kind of wood lies on the stage.
type Options struct {
	Rings  int
	MeanUm float64
	// Sensitivity is the standard deviation of the logarithm of the widths.
	Sensitivity float64
	// Bounce is the share of presses of the foot switch that arrive twice.
	Bounce float64
	Pause  time.Duration
	Seed   int64
}

func main() {
	var options Options
	flag.IntVar(&options.Rings, "rings", 50, "number of rings")
	flag.Float64Var(&options.MeanUm, "mean", 1500, "mean ring width in µm")
	flag.Float64Var(&options.Sensitivity, "sensitivity", 0.3, "spread of the widths")
	flag.Float64Var(&options.Bounce, "bounce", 0, "share of bouncing presses, 0 to 1")
	flag.DurationVar(&options.Pause, "pause", 0, "pause between rings, as 800ms")
	flag.Int64Var(&options.Seed, "seed", 1, "seed of the random numbers")
	flag.Parse()

	if err := options.validate(); err != nil {
		log.Fatalf("benchsim: %v", err)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, line := range Lines(options) {
		fmt.Fprint(out, line, "\r\n")
		if options.Pause > 0 {
			out.Flush()
			time.Sleep(options.Pause)
		}
	}
}

func (o Options) validate() error {
	if o.Bounce < 0 || o.Bounce > 1 {
		return fmt.Errorf("-bounce %v is not between 0 and 1", o.Bounce)
	}
	if o.Rings < 1 || o.MeanUm < 10 {
		return fmt.Errorf("-rings must be at least 1 and -mean at least 10 µm")
	}
	return nil
}

// Lines gives what an encoder with 1000 counts a millimetre would send. Each ring is
// approached in three steps; the last one carries the B of the foot switch.
func Lines(options Options) []string {
	random := rand.New(rand.NewSource(options.Seed))
	var lines []string
	position := 0.0
	for ring := 0; ring < options.Rings; ring++ {
		width := options.MeanUm * math.Exp(options.Sensitivity*random.NormFloat64())
		for step := 1; step <= 3; step++ {
			lines = append(lines, format(position+width*float64(step)/3, step == 3))
		}
		position += width
		if random.Float64() < options.Bounce {
			// A bouncing switch: the same boundary again, a few µm further.
			lines = append(lines, format(position+float64(random.Intn(20)), true))
		}
	}
	return lines
}

func format(um float64, pressed bool) string {
	line := fmt.Sprintf("P%+08d", int(math.Round(um)))
	if pressed {
		return line + " B"
	}
	return line
}

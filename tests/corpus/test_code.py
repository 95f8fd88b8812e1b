"""Code is cut where its definitions begin, with what introduces them."""

import itertools

import pytest

from freshstack_dspy.lm.tokens import count_tokens
from tests.corpus.exactness import chunks_of

PADDING = "one two three four five six seven eight nine ten"
LONG = f"{PADDING} {PADDING} {PADDING} {PADDING}"
DEFINITIONS = {
    "py": [
        f'# About f.\n@decorated\n@twice(1)\ndef f(a):\n    """{LONG}"""\n    return a',
        f'class G(Base):\n    """{LONG}"""\n\n    x = 1',
        f'async def h():\n    return "{LONG}"  # behind code',
    ],
    "js": [
        f"/**\n * {LONG}\n */\nfunction f(a) {{\n  return a;\n}}",
        f"export class G extends B {{\n  m() {{ return '{LONG}'; }}\n}}",
        f"// About h.\nconst h = (a) => {{\n  return '{LONG}';\n}};",
    ],
    "ts": [
        f"// {LONG}\nexport interface F {{\n  a: string;\n}}",
        f"@Component({{ a: 1 }})\nexport class G<T> {{\n  m(): T {{ return '{LONG}'; }}\n}}",
        f"export function h<T>(a: T): T {{\n  return x('{LONG}');\n}}",
    ],
    "tsx": [
        f"const F = () => (\n  <div>\n    {LONG}\n  </div>\n);",
        f"export function G(): Element {{\n  return <b>{LONG}</b>;\n}}",
    ],
    "go": [
        f'// F does.\nfunc F(a int) string {{\n\treturn "{LONG}"\n}}',
        f"// G is.\n// {LONG}\ntype G struct {{\n\tA int\n}}",
        f'func (g *G) H() string {{\n\treturn "{LONG}"\n}}',
    ],
    "rs": [
        f"/// {LONG}\n#[derive(Debug)]\n#[serde(x)]\npub struct F {{\n    a: u8,\n}}",
        f'impl F {{\n    fn g(&self) -> &str {{ "{LONG}" }}\n}}',
        f'#[test]\nfn h() {{\n    f("{LONG}");\n}}',
    ],
    "java": [
        f"/** {LONG} */\n@Deprecated\npublic class F<T> {{\n  int a;\n}}",
        f'interface G {{\n  String A = "{LONG}";\n}}',
    ],
    "c": [
        f"/* {LONG} */\nstatic int f(int a)\n{{\n  return a;\n}}",
        f'struct g {{\n  int a; /* "{LONG}" */\n}};',
        f'const char *h(void) {{\n  return "{LONG}";\n}}',
    ],
    "cpp": [
        f"// {LONG}\ntemplate <typename T>\nclass F {{\n public:\n  int a;\n}};",
        f'std::string G::h() const {{\n  return "{LONG}";\n}}',
    ],
    "sh": [
        f"# About f.\nf() {{\n  echo '{LONG}'\n}}",
        f"if [ -n \"$A\" ]; then\n  echo '{LONG}'\nfi",
        f"function g {{\n\n  local a='{LONG}'\n}}",
    ],
    "cs": [
        f"/// {LONG}\n[Serializable]\npublic class F : B\n{{\n    int a;\n}}",
        f"public interface G\n{{\n    /* {LONG} */\n    string A();\n}}",
    ],
    "css": [
        f"/* {LONG} */\n.a > b {{\n  color: red;\n}}",
        f"@media print {{\n  .b::after {{\n    content: '{LONG}';\n  }}\n}}",
    ],
    "gd": [
        f"# About f.\nfunc f(a: int) -> int:\n\tprint('{LONG}')\n\treturn a",
        f"class G:\n\tvar x = '{LONG}'\n\n\tfunc h():\n\t\tpass",
    ],
    "html": [
        f"<!-- about -->\n<div class='a'>\n  <p>{LONG}</p>\n</div>",
        f"<section>\n  <p>{LONG}</p>\n</section>",
    ],
    "kt": [
        f"/** {LONG} */\n@Test\nfun f(a: Int): Int {{\n    return a\n}}",
        f'class G(val a: Int) {{\n    val b = "{LONG}"\n}}',
    ],
    "lua": [
        f"-- {LONG}\nlocal function f(a)\n  return a\nend",
        f"function M.g(a)\n  return '{LONG}'\nend",
    ],
    "php": [
        f"<?php\n/** {LONG} */\nfunction f($a)\n{{\n    return $a;\n}}",
        f"#[Attribute]\nclass G extends B\n{{\n    public $a = '{LONG}';\n}}",
    ],
    "rb": [
        f"# {LONG}\nclass F < B\n  attr_reader :a\nend",
        f"def g(a)\n  '{LONG}'\nend",
    ],
    "scala": [
        f"/** {LONG} */\n@deprecated\nclass F(a: Int) {{\n  def b = a\n}}",
        f'object G extends B {{\n  val a = "{LONG}"\n}}',
    ],
    "swift": [
        f"/// {LONG}\n@objc\nclass F: B {{\n  var a = 1\n}}",
        f'func g(a: Int) -> String {{\n  return "{LONG}"\n}}',
    ],
}


def limit_for(definitions: list[str]) -> int:
    """Give the limit that holds each definition, with empty lines, and no two of them."""
    sizes = [count_tokens(f"{text}\r\n\r\n") for text in definitions]
    assert max(sizes) < min(map(sum, itertools.pairwise(sizes)))
    return max(sizes)


@pytest.mark.parametrize("gap", ["\n\n", "\n\n\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("suffix", DEFINITIONS)
def test_each_definition_is_a_chunk_with_what_introduces_it(suffix: str, gap: str) -> None:
    definitions = DEFINITIONS[suffix]
    if "\r" in gap:
        definitions = [text.replace("\n", "\r\n") for text in definitions]

    chunks = chunks_of(f"a.{suffix}", gap.join(definitions) + "\n", limit_for(definitions))

    assert [chunk.text.rstrip() for chunk in chunks] == definitions


@pytest.mark.parametrize("suffix", DEFINITIONS)
def test_definitions_need_no_blank_line_between_them(suffix: str) -> None:
    definitions = DEFINITIONS[suffix]

    chunks = chunks_of(f"a.{suffix}", "\n".join(definitions) + "\n", limit_for(definitions))

    assert [chunk.text.rstrip() for chunk in chunks] == definitions


def test_a_class_that_is_too_large_is_cut_between_its_methods() -> None:
    methods = [
        f'    @x\n    def m{n}(self):\n        return """\n\n{PADDING}\n"""' for n in range(3)
    ]
    head = f'class A:\n    """{PADDING}."""'

    chunks = chunks_of("a.py", "\n\n".join([head, *methods]), 40)

    assert [chunk.text.rstrip() for chunk in chunks] == [head, *methods]


def test_a_comment_banner_is_about_what_follows_it() -> None:
    before = f'A = "{PADDING}"\nB = "{PADDING}"'
    after = f'#######\n# Title\n\n\ndef f():\n    return "{PADDING}"'

    chunks = chunks_of("a.py", f"{before}\n\n\n{after}\n", 36)

    assert [chunk.text.rstrip() for chunk in chunks] == [before, after]


def test_a_comment_behind_code_is_about_that_code() -> None:
    lines = [f'a{n} = "{PADDING}"  # about a{n}' for n in range(6)]

    chunks = chunks_of("a.py", "\n".join(lines), 24)

    assert [chunk.text.rstrip() for chunk in chunks] == lines


def test_the_brace_below_a_head_belongs_to_it() -> None:
    body = "".join(f'  call("{PADDING}", {n});\n' for n in range(4))

    chunks = chunks_of("a.c", f"int f(int {'a' * 40})\n{{\n{body}}}\n", 40)

    assert chunks[0].text.startswith("int f(int aaa")
    assert "{" in chunks[0].text


@pytest.mark.parametrize(
    "broken", ["def f(:\n", "}}}}", "<<<<<<< HEAD\n", "class {", '"""', "\ufeff\ufeff", "#" * 50]
)
@pytest.mark.parametrize("suffix", DEFINITIONS)
def test_broken_code_is_cut_as_well(suffix: str, broken: str) -> None:
    text = f"{broken}\n\n".join(DEFINITIONS[suffix] * 3)

    assert len(chunks_of(f"a.{suffix}", text, 48)) > 3


def test_prose_under_the_suffix_of_code_is_cut_as_well() -> None:
    """Qt's translations are XML in files that are called `.ts`."""
    entry = f"<message>\n  <source>It's {PADDING}</source>\n</message>\n"

    assert len(chunks_of("a.ts", entry * 200, 128)) > 20

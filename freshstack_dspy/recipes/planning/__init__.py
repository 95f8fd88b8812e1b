"""What a build will ask and cost, before anything is sent."""

"""Ways to show an attribution, one file each; they register by existing."""

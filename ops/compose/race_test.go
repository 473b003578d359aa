//go:build race

package compose_test

// underRace: the race detector makes chains of a thousand steps take minutes.
const underRace = true

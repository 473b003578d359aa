//go:build !race

package compose_test

const underRace = false

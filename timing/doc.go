// Package timing measures how long something takes, repeatedly, and says what
// the numbers are worth.
//
// A [Runner] runs the thing: it puts its inputs back before every run, evicts
// the caches if asked for cold runs, and reports the time of each run alone, on
// the clock it names. [Measure] warms up, takes samples until the stop rule
// holds and keeps all of them in a [Series]; nothing is thrown away. What is
// shown of a series is its median with the quartiles and the number of samples.
//
// The stop rule is NVBench's: the relative noise is small, or it no longer
// changes, or the time is spent; the series says which. [Compare] tells whether
// one series is faster than another: the intervals from the minimum to the
// third quartile have to be apart (NVBench's comparison) and the samples have to
// differ by the Mann-Whitney U test (benchstat's).
//
// Times are time.Duration, of nanosecond resolution; [ClockOverhead] measures
// what the host's clock adds and how finely it ticks.
package timing

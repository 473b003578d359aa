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
// changes, or the time is spent; the series says which. A [Sample] also says how
// long its run had no processor, since no spread of the numbers shows that on a
// machine that is always busy. [Compare] tells whether one series is faster than
// another: their quickest rounds have to be apart, and agreed on by others of the same
// series, so that what the machine did for a while is not taken for the difference.
//
// [MeasurePair] takes turns between two things, so that [ComparePair] can compare their rounds
// one by one, which tells more.
//
// Times are time.Duration, of nanosecond resolution; [ClockOverhead] measures
// what the host's clock adds and how finely it ticks.
package timing

// Method counts the changes of how runs are taken and what their time is, here
// and in the process that runs a device: times of different methods are not of
// the same thing. Files written before it was counted have 0.
const Method = 3

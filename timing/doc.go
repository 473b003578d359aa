// Package timing measures how long something takes, repeatedly, and says how far the numbers can be trusted.
//
// A [Runner] runs the thing. It restores the inputs before every run, evicts the caches if cold runs are wanted, and
// reports the time of each run on the clock that it names. [Measure] warms up, takes samples until the stop rule
// holds, and keeps all of them in a [Series]. A series is shown as its median, its quartiles and the number of samples.
//
// The stop rule is NVBench's. It holds if the relative noise is small, if the noise no longer changes, or if the time
// is spent. The series names the reason. A [Sample] also says how long its run waited for a processor: on a machine
// that is always busy, the spread of the numbers does not show that. [Compare] tells whether one series is faster than
// another. Their quickest rounds must be apart, and other rounds of the same series must agree with these. A
// disturbance of the machine is then not taken for a difference.
//
// [MeasurePair] measures two things in turn. [ComparePair] then compares their rounds one by one. That is more
// sensitive.
//
// Times are time.Duration, with a resolution of a nanosecond. [ClockOverhead] measures the overhead and the resolution
// of the host's clock.
package timing

// Method counts the changes of how runs are taken and what their time is, here
// and in the process that runs a device: times of different methods are not of
// the same thing. Files written before it was counted have 0.
const Method = 3

package verdict

// A Rule is what a finding about calls recorded together is about, as it is written
// to files.
type Rule string

// The rules.
const (
	Wrong     Rule = "wrong"     // the result of a call does not match its inputs
	Changed   Rule = "changed"   // a value is not what its producer made, and no call wrote it
	Parallel  Rule = "parallel"  // what the ranks of one program do together is not what the whole program gives
	NonFinite Rule = "nonfinite" // the first call that made an infinite value or NaN of finite ones
	Drift     Rule = "drift"     // nothing is wrong, but precision is lost
	Diverged  Rule = "diverged"  // two runs: equal arguments, different results
	Missing   Rule = "missing"   // two runs: a call or value that only the other one has
	Inserted  Rule = "inserted"  // two runs: a call or value that the other one lacks
)

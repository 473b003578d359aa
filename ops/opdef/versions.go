package opdef

// A Version is what some sound implementations of an operator compute and others do not.
type Version[P any] struct {
	Text string // "queries that see no key give NaN (torch before 2.5)"
	Plan func() (P, error)
}

// Versions are the calls that are as right as c, which must not have been refused: own says
// what is c's own, "" if that goes without saying.
func (c *Call) Versions() (own string, others []Version[*Call]) {
	if c.version != "" || c.Plan() != nil {
		return c.version, nil
	}
	own, versions := c.plan.versions()
	for _, v := range versions {
		others = append(others, Version[*Call]{v.Text, func() (*Call, error) {
			d := c.with(c.args)
			d.version, d.accepted = v.Text, nil
			return d, d.Plan()
		}})
	}
	return own, others
}

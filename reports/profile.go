package reports

import "slices"

// A Profile says how the errors of one value of a finding are spread: how large they
// are, and where. Distances are in units in the last place.
type Profile struct {
	Capture   string `json:"capture"`
	Op        string `json:"op"`
	ForwardID *int   `json:"forward_id"`
	Phase     string `json:"phase"`
	Target    string `json:"target"`
	Numel     int    `json:"numel"`
	Equal     int    `json:"equal"`    // elements that are the reference, rounded
	Infinite  int    `json:"infinite"` // elements that are not finite on one side alone
	Octaves   []int  `json:"octaves"`  // other elements by distance: below 1, 2, 4, ...
	// OtherSign are, of each of Octaves, the elements of another sign than the reference; nil where a file does not say
	// it.
	OtherSign []int       `json:"other_sign,omitempty"`
	Worst     []Deviation `json:"worst"` // the elements that are furthest off, the worst first
	Where     []string    `json:"where"` // dimensions that hold the errors in few of their indices
	// Map is the largest distance in each cell of a picture of the last two dimensions,
	// those before laid over each other.
	Map    [][]Number `json:"map"`
	MaxAbs Number     `json:"max_abs"` // over the elements that are finite
	MaxRel Number     `json:"max_rel"`
}

// Distances are octaves of a profile without the elements of another sign, and how many these are.
func Distances(octaves, otherSign []int) (alone []int, others int) {
	alone = slices.Clone(octaves)
	for k, n := range otherSign[:min(len(otherSign), len(alone))] {
		alone[k] -= n
		others += n
	}
	return alone, others
}

// A Deviation is an element and its distance, which is infinite where one side alone is
// not finite.
type Deviation struct {
	Index []int  `json:"index"`
	Got   Number `json:"got"`
	Want  Number `json:"want"` // rounded to the dtype
	ULPs  Number `json:"ulps"`
}

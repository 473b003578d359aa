package ops

import "github.com/optool/optool/opdef"

var pointwiseOps = []*opdef.Entry{}

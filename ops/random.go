package ops

import "github.com/optool/optool/opdef"

var randomOps = []*opdef.Entry{}

package ops

import "github.com/optool/optool/opdef"

var poolOps = []*opdef.Entry{}

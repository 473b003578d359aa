package ops

import "github.com/optool/optool/opdef"

var matmulOps = []*opdef.Entry{}

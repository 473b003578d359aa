package ops

import "github.com/optool/optool/opdef"

var shapeOps = []*opdef.Entry{}

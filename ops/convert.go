package ops

import "github.com/optool/optool/opdef"

var convertOps = []*opdef.Entry{}

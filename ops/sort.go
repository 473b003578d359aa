package ops

import "github.com/optool/optool/opdef"

var sortOps = []*opdef.Entry{}

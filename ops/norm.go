package ops

import "github.com/optool/optool/opdef"

var normOps = []*opdef.Entry{}

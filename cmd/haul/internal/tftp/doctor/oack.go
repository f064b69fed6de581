package doctor

import (
	"bytes"
	"strings"

	"github.com/haul-project/haul/tftp/transfer"
)

// agreed holds the values in force after an OACK, as a client understands them.
type agreed struct {
	blockSize int   // in bytes; 512 if blksize was not confirmed
	window    int   // in blocks; 1 if windowsize was not confirmed
	size      int64 // size of the file in bytes; -1 if the OACK has no tsize
	timeout   string
	options   []option // all options of the OACK
}

// An option is a name and a value of an OACK, as received.
type option struct{ name, value string }

// plain returns the values in force without an OACK.
func plain() agreed { return agreed{blockSize: transfer.DefaultBlockSize, window: 1, size: -1} }

// get returns an option's value. The case of the name does not matter.
func (a *agreed) get(name string) (value string, ok bool) {
	for _, o := range a.options {
		if strings.EqualFold(o.name, name) {
			return o.value, true
		}
	}
	return "", false
}

// oackOf returns the options of an OACK without judging them.
func oackOf(p packet) agreed {
	a := plain()
	a.options, _ = parseOACK(p.data)
	return a
}

// parseOACK splits the content of an OACK into options. It returns false if the number of strings
// is odd, or if the last string does not end with a NUL.
func parseOACK(b []byte) (options []option, ok bool) {
	if len(b) > 0 && b[len(b)-1] != 0 {
		return nil, false
	}
	fields := bytes.Split(b, []byte{0})
	fields = fields[:len(fields)-1] // nothing follows the last NUL
	if len(fields)%2 != 0 {
		return nil, false
	}
	for i := 0; i < len(fields); i += 2 {
		options = append(options, option{string(fields[i]), string(fields[i+1])})
	}
	return options, true
}

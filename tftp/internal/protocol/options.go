package protocol

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// Bounds of the windows that we agree to.
const (
	// safeWindow is the largest window that we agree to, in blocks: a quarter of the block numbers.
	// Blocks of the previous window may arrive again. If two windows together had more blocks than
	// there are numbers, such blocks would be taken for new ones.
	safeWindow = 16384

	netasciiWindow = 8 // largest window in netascii, in blocks
)

// The option names, in the lower case in which they are sent.
const (
	optBlockSize    = "blksize"
	optBlockSize2   = "blksize2"
	optSize         = "tsize"
	optTimeout      = "timeout"
	optMicroTimeout = "utimeout"
	optWindow       = "windowsize"
	optRollover     = "rollover"
)

// isZero reports whether no option is present.
func isZero(o transfer.Options) bool {
	if o.Rollover > transfer.RolloverOne {
		o.Rollover = transfer.RolloverDefault
	}
	return o == transfer.Options{}
}

// blockSizeOf, windowOf and timeoutOf return the values in force, with defaults for absent options.
func blockSizeOf(o transfer.Options) int { return cmp.Or(o.BlockSize, transfer.DefaultBlockSize) }

func windowOf(o transfer.Options) int { return max(1, o.Window) }

func timeoutOf(o transfer.Options) time.Duration { return cmp.Or(o.MicroTimeout, o.Timeout) }

// Agree returns the options to confirm for a request: only those that were offered, with values no
// higher than offered. For a read, size is the file's size in bytes, or negative if it is unknown.
// A size of zero is omitted too, because curl 7.88 takes an OACK with tsize 0 for a failure.
func Agree(l transfer.Limits, r transfer.Request, size int64) transfer.Options {
	o := r.Offer
	if l.BlockSize > 0 {
		o.BlockSize = min(o.BlockSize, max(l.BlockSize, transfer.MinBlockSize))
	}
	if l.Window > 0 {
		o.Window = min(o.Window, l.Window)
	}
	if o.PowerOfTwo && o.BlockSize > 0 {
		o.BlockSize = 1 << (bits.Len(uint(o.BlockSize)) - 1)
	}
	if o.Rollover == transfer.RolloverDefault && l.Rollover == transfer.RolloverOne {
		o.Rollover = transfer.RolloverOneUnasked
	}
	limitWindow(&o, r.Mode)
	// A timeout is confirmed unchanged or not at all (RFC 2349).
	if !confirms(l, o.Timeout) {
		o.Timeout = 0
	}
	if !confirms(l, o.MicroTimeout) {
		o.MicroTimeout = 0
	}
	if !r.Write {
		o.HasSize = o.HasSize && size > 0
		o.Size = size
	}
	if !o.HasSize {
		o.Size = 0
	}
	return o
}

// limitWindow limits the window to safeWindow, or to netasciiWindow in netascii. A netascii
// receiver must drop blocks that arrive out of order, so a large window would be sent many times.
func limitWindow(o *transfer.Options, m transfer.Mode) {
	most := safeWindow
	if m == transfer.Netascii {
		most = netasciiWindow
	}
	o.Window = min(o.Window, most)
}

func confirms(l transfer.Limits, timeout time.Duration) bool {
	return timeout >= l.MinTimeout && (l.MaxTimeout == 0 || timeout <= l.MaxTimeout)
}

// appendOptions appends each option that is present, as its name and its decimal value.
func appendOptions(b []byte, o transfer.Options) []byte {
	switch {
	case o.BlockSize != 0 && o.PowerOfTwo:
		b = appendOption(b, optBlockSize2, int64(o.BlockSize))
	case o.BlockSize != 0:
		b = appendOption(b, optBlockSize, int64(o.BlockSize))
	}
	if o.HasSize {
		b = appendOption(b, optSize, o.Size)
	}
	if o.Timeout != 0 {
		b = appendOption(b, optTimeout, int64(o.Timeout/time.Second))
	}
	if o.MicroTimeout != 0 {
		b = appendOption(b, optMicroTimeout, o.MicroTimeout.Microseconds())
	}
	if o.Window != 0 {
		b = appendOption(b, optWindow, int64(o.Window))
	}
	if o.Rollover == transfer.RolloverZero || o.Rollover == transfer.RolloverOne {
		b = appendOption(b, optRollover, int64(o.Rollover-transfer.RolloverZero))
	}
	return b
}

func appendOption(b []byte, name string, value int64) []byte {
	b = append(append(b, name...), 0)
	return append(strconv.AppendInt(b, value, 10), 0)
}

// errMalformed reports that the value of a known option is not valid.
var errMalformed = errors.New("value out of range")

// parseOffer parses the options of a request. Options that are unknown, refused, malformed or cut
// off are ignored (RFC 2347). If an option is given twice, the first one counts; blksize and
// blksize2 count as one option.
func parseOffer(b []byte, refused transfer.OptionSet) transfer.Options {
	var o transfer.Options
	for {
		name, value, rest, ok := cutOption(b)
		if !ok {
			return o
		}
		if refused == 0 || !refused.Has(name) {
			// A server does not reject a bad option; it just leaves it unconfirmed.
			_, _ = setOption(&o, name, value)
		}
		b = rest
	}
}

// parseOptionAck parses the options of an OACK. It returns an error for options that a server may
// not send: unknown, malformed, repeated or cut off.
func parseOptionAck(b []byte) (transfer.Options, error) {
	var o transfer.Options
	b = b[2:]
	for len(b) > 0 {
		name, value, rest, ok := cutOption(b)
		if !ok {
			return o, errors.New("option list is cut off")
		}
		was := o
		known, err := setOption(&o, name, value)
		switch {
		case err != nil:
			return o, fmt.Errorf("option %s: %w", clean(string(name)), err)
		case !known:
			return o, fmt.Errorf("option %s was not asked for", clean(string(name)))
		case o == was:
			return o, fmt.Errorf("option %s is given twice", clean(string(name)))
		}
		b = rest
	}
	return o, nil
}

func cutOption(b []byte) (name, value, rest []byte, ok bool) {
	name, rest, ok = cutField(b)
	if !ok {
		return nil, nil, nil, false
	}
	value, rest, ok = cutField(rest)
	return name, value, rest, ok
}

// setOption stores one option unless it is already present. It reports whether the name is known,
// and returns errMalformed for a value that is not valid.
func setOption(o *transfer.Options, name, value []byte) (known bool, err error) {
	n, ok := parseDecimal(value)
	in := func(low, high int64) bool { return ok && n >= low && n <= high }
	valid := false
	switch {
	case equalFold(name, optBlockSize):
		if valid = in(transfer.MinBlockSize, transfer.MaxBlockSize); valid && o.BlockSize == 0 {
			o.BlockSize = int(n)
		}
	case equalFold(name, optWindow):
		if valid = in(1, transfer.MaxWindow); valid && o.Window == 0 {
			o.Window = int(n)
		}
	case equalFold(name, optTimeout):
		if valid = in(int64(transfer.MinTimeout/time.Second), int64(transfer.MaxTimeout/time.Second)); valid && o.Timeout == 0 {
			o.Timeout = time.Duration(n) * time.Second
		}
	case equalFold(name, optMicroTimeout):
		if valid = in(transfer.MinMicroTimeout.Microseconds(), transfer.MaxTimeout.Microseconds()); valid && o.MicroTimeout == 0 {
			o.MicroTimeout = time.Duration(n) * time.Microsecond
		}
	case equalFold(name, optSize):
		if valid = ok; valid && !o.HasSize {
			o.HasSize, o.Size = true, n
		}
	case equalFold(name, optRollover):
		if valid = in(0, 1); valid && o.Rollover == transfer.RolloverDefault {
			o.Rollover = transfer.RolloverZero + transfer.Rollover(n)
		}
	case equalFold(name, optBlockSize2):
		if valid = in(transfer.MinBlockSize, transfer.MaxBlockSize); valid && o.BlockSize == 0 {
			o.BlockSize, o.PowerOfTwo = int(n), true
		}
	default:
		return false, nil
	}
	if !valid {
		return true, errMalformed
	}
	return true, nil
}

// parseDecimal parses an unsigned decimal number below 2^63: at most 19 digits, and nothing else.
func parseDecimal(b []byte) (int64, bool) {
	n, err := strconv.ParseUint(string(b), 10, 63)
	return int64(n), err == nil && len(b) <= 19
}

// confirmedBy checks the server's OACK ack against the requested options o. It returns an error for
// an option that was not requested (RFC 2347), a higher value than requested (RFC 2348 and 7440),
// and for a timeout, or a size of a write, that differs from the requested one (RFC 2349).
func confirmedBy(o transfer.Options, ack transfer.Options, write bool) error {
	switch {
	case ack.BlockSize > o.BlockSize:
		return fmt.Errorf("blksize %d where at most %d was asked", ack.BlockSize, o.BlockSize)
	case ack.PowerOfTwo && !o.PowerOfTwo:
		return errors.New("blksize2 was not asked for")
	case ack.BlockSize != 0 && !ack.PowerOfTwo && o.PowerOfTwo:
		return errors.New("blksize was not asked for")
	case ack.Window > o.Window:
		return fmt.Errorf("windowsize %d where at most %d was asked", ack.Window, o.Window)
	case ack.Timeout != 0 && ack.Timeout != o.Timeout:
		return fmt.Errorf("timeout %v where %v was asked", ack.Timeout, o.Timeout)
	case ack.MicroTimeout != 0 && ack.MicroTimeout != o.MicroTimeout:
		return fmt.Errorf("utimeout %v where %v was asked", ack.MicroTimeout, o.MicroTimeout)
	case ack.Rollover != transfer.RolloverDefault && ack.Rollover != o.Rollover:
		return errors.New("rollover differs from what was asked")
	case ack.HasSize && !o.HasSize:
		return errors.New("tsize was not asked for")
	case ack.HasSize && write && ack.Size != o.Size:
		return fmt.Errorf("tsize %d where %d was offered", ack.Size, o.Size)
	}
	return nil
}

// cutField cuts a NUL-terminated field off b.
func cutField(b []byte) (field, rest []byte, ok bool) {
	return bytes.Cut(b, []byte{0})
}

// equalFold reports whether b equals s without regard to case. s must be in lower case.
func equalFold(b []byte, s string) bool {
	return len(b) == len(s) && bytes.EqualFold(b, []byte(s))
}

package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ranges and defaults of the options.
const (
	MinBlockSize     = 8     // RFC 2348
	MaxBlockSize     = 65464 // RFC 2348
	DefaultBlockSize = 512   // RFC 1350: the size without the option
	MaxWindow        = 65535 // RFC 7440

	// safeWindow is the largest window that is agreed on, in blocks: a quarter of the block
	// numbers. Blocks of the previous window may come again; if the numbers did not cover two
	// windows, they would be taken for new ones.
	safeWindow = 16384

	netasciiWindow = 8 // most blocks a window in netascii

	minTimeout      = time.Second // RFC 2349
	maxTimeout      = 255 * time.Second
	minMicroTimeout = 10 * time.Millisecond // same as tftp-hpa
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

var optionNames = [...]string{optBlockSize, optBlockSize2, optSize, optTimeout, optMicroTimeout, optWindow, optRollover}

// An OptionSet is a set of the options that this package knows.
type OptionSet uint8

// ParseOptionSet parses option names separated by commas, in upper or lower case.
func ParseOptionSet(names string) (set OptionSet, err error) {
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(optionNames[:], strings.ToLower(name))
		if i < 0 {
			return 0, fmt.Errorf("there is no option %q; the options are %s", name, strings.Join(optionNames[:], ", "))
		}
		set |= 1 << i
	}
	return set, nil
}

// String returns the names of the options in the form that [ParseOptionSet] reads.
func (set OptionSet) String() string {
	var names []string
	for i, name := range optionNames {
		if set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func (set OptionSet) has(name []byte) bool {
	for i, known := range optionNames {
		if set&(1<<i) != 0 && equalFold(name, known) {
			return true
		}
	}
	return false
}

// Options are the values that two peers agree on before data is sent. A zero field was not offered,
// or not agreed on.
type Options struct {
	BlockSize    int           // blksize: bytes a block, 8 to 65464
	Window       int           // windowsize: blocks a window, 1 to 65535
	Timeout      time.Duration // timeout: whole seconds, 1 s to 255 s
	MicroTimeout time.Duration // utimeout: whole microseconds, 10 ms to 255 s
	Rollover     Rollover      // rollover: which block number follows 65535
	PowerOfTwo   bool          // BlockSize came as blksize2: a server confirms a power of two
	HasSize      bool          // tsize is present, with Size as its value
	Size         int64         // bytes in the file
}

// IsZero reports whether no option is present.
func (o Options) IsZero() bool {
	if o.Rollover > RolloverOne {
		o.Rollover = RolloverDefault
	}
	return o == Options{}
}

// Check returns an error for a value outside the range of its option.
func (o Options) Check() error {
	switch {
	case o.BlockSize != 0 && (o.BlockSize < MinBlockSize || o.BlockSize > MaxBlockSize):
		return fmt.Errorf("blksize %d is not in %d to %d", o.BlockSize, MinBlockSize, MaxBlockSize)
	case o.Window < 0 || o.Window > MaxWindow:
		return fmt.Errorf("windowsize %d is not in 1 to %d", o.Window, MaxWindow)
	case o.Timeout != 0 && (o.Timeout < minTimeout || o.Timeout > maxTimeout || o.Timeout%time.Second != 0):
		return fmt.Errorf("timeout %v is not whole seconds in %v to %v", o.Timeout, minTimeout, maxTimeout)
	case o.MicroTimeout != 0 && (o.MicroTimeout < minMicroTimeout || o.MicroTimeout > maxTimeout):
		return fmt.Errorf("utimeout %v is not in %v to %v", o.MicroTimeout, minMicroTimeout, maxTimeout)
	case o.Rollover > RolloverOne:
		return errors.New("rollover is not 0 or 1")
	}
	return nil
}

// blockSize, window and timeout return the values in force, with defaults for absent options.
func (o Options) blockSize() int { return cmp.Or(o.BlockSize, DefaultBlockSize) }

func (o Options) window() int { return max(1, o.Window) }

func (o Options) timeout() time.Duration { return cmp.Or(o.MicroTimeout, o.Timeout) }

// Limits are the option values that this side accepts. A zero field means no limit of our own: the
// whole range that the RFC allows.
type Limits struct {
	BlockSize  int           // most bytes a block
	Window     int           // most blocks a window
	MinTimeout time.Duration // shortest timeout confirmed
	MaxTimeout time.Duration // longest timeout confirmed

	// Rollover applies to a peer that does not ask for one. It is not confirmed in an OACK.
	Rollover Rollover
}

// Agree returns the options to confirm for a request: only those that were offered, with values no
// higher than offered. For a read, size is that of the file. A size of zero is omitted because curl
// 7.88 takes an OACK with tsize 0 for a failure; a size below zero is omitted because it is
// unknown.
func (l Limits) Agree(r Request, size int64) Options {
	o := r.Offer
	if l.BlockSize > 0 {
		o.BlockSize = min(o.BlockSize, max(l.BlockSize, MinBlockSize))
	}
	if l.Window > 0 {
		o.Window = min(o.Window, l.Window)
	}
	if o.PowerOfTwo && o.BlockSize > 0 {
		o.BlockSize = 1 << (bits.Len(uint(o.BlockSize)) - 1)
	}
	if o.Rollover == RolloverDefault && l.Rollover == RolloverOne {
		o.Rollover = RolloverOneUnasked
	}
	o.limitWindow(r.Mode)
	// A timeout is confirmed unchanged or not at all (RFC 2349).
	if !l.confirms(o.Timeout) {
		o.Timeout = 0
	}
	if !l.confirms(o.MicroTimeout) {
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

// limitWindow keeps windows safe, and small in netascii. A netascii receiver must drop blocks that
// come out of order, so a large window would be sent many times.
func (o *Options) limitWindow(m Mode) {
	most := safeWindow
	if m == Netascii {
		most = netasciiWindow
	}
	o.Window = min(o.Window, most)
}

func (l Limits) confirms(timeout time.Duration) bool {
	return timeout >= l.MinTimeout && (l.MaxTimeout == 0 || timeout <= l.MaxTimeout)
}

// appendOptions appends the options present, as names and decimal values.
func appendOptions(b []byte, o Options) []byte {
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
	if o.Rollover == RolloverZero || o.Rollover == RolloverOne {
		b = appendOption(b, optRollover, int64(o.Rollover-RolloverZero))
	}
	return b
}

func appendOption(b []byte, name string, value int64) []byte {
	b = append(append(b, name...), 0)
	return append(strconv.AppendInt(b, value, 10), 0)
}

// errMalformed marks an option that is known but has no valid value.
var errMalformed = errors.New("value out of range")

// parseOffer parses the options of a request. Options that are unknown, refused, malformed or cut
// off are ignored (RFC 2347). If an option is given twice, the first one counts; blksize and
// blksize2 count as one option.
func parseOffer(b []byte, refused OptionSet) Options {
	var o Options
	for {
		name, value, rest, ok := cutOption(b)
		if !ok {
			return o
		}
		if refused == 0 || !refused.has(name) {
			_, _ = o.set(name, value) // a server does not reject a bad option, it only does not confirm it
		}
		b = rest
	}
}

// parseOptionAck parses the options of an OACK. It returns an error for options that a server may
// not send: unknown, malformed, repeated or cut off.
func parseOptionAck(b []byte) (Options, error) {
	var o Options
	b = b[2:]
	for len(b) > 0 {
		name, value, rest, ok := cutOption(b)
		if !ok {
			return o, errors.New("option list is cut off")
		}
		was := o
		known, err := o.set(name, value)
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

// set stores one option unless it is already present.
func (o *Options) set(name, value []byte) (known bool, err error) {
	n, ok := parseDecimal(value)
	in := func(low, high int64) bool { return ok && n >= low && n <= high }
	valid := false
	switch {
	case equalFold(name, optBlockSize):
		if valid = in(MinBlockSize, MaxBlockSize); valid && o.BlockSize == 0 {
			o.BlockSize = int(n)
		}
	case equalFold(name, optWindow):
		if valid = in(1, MaxWindow); valid && o.Window == 0 {
			o.Window = int(n)
		}
	case equalFold(name, optTimeout):
		if valid = in(int64(minTimeout/time.Second), int64(maxTimeout/time.Second)); valid && o.Timeout == 0 {
			o.Timeout = time.Duration(n) * time.Second
		}
	case equalFold(name, optMicroTimeout):
		if valid = in(minMicroTimeout.Microseconds(), maxTimeout.Microseconds()); valid && o.MicroTimeout == 0 {
			o.MicroTimeout = time.Duration(n) * time.Microsecond
		}
	case equalFold(name, optSize):
		if valid = ok; valid && !o.HasSize {
			o.HasSize, o.Size = true, n
		}
	case equalFold(name, optRollover):
		if valid = in(0, 1); valid && o.Rollover == RolloverDefault {
			o.Rollover = RolloverZero + Rollover(n)
		}
	case equalFold(name, optBlockSize2):
		if valid = in(MinBlockSize, MaxBlockSize); valid && o.BlockSize == 0 {
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

// parseDecimal parses an unsigned decimal number below 2^63 of digits only.
func parseDecimal(b []byte) (int64, bool) {
	n, err := strconv.ParseUint(string(b), 10, 63)
	return int64(n), err == nil && len(b) <= 19
}

// confirmedBy checks a server's OACK against the request: no option that was not requested (RFC
// 2347), no higher value than requested (RFC 2348 and 7440), and a timeout, and a write's size,
// exactly as requested (RFC 2349).
func (o Options) confirmedBy(ack Options, write bool) error {
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
	case ack.Rollover != RolloverDefault && ack.Rollover != o.Rollover:
		return errors.New("rollover differs from what was asked")
	case ack.HasSize && !o.HasSize:
		return errors.New("tsize was not asked for")
	case ack.HasSize && write && ack.Size != o.Size:
		return fmt.Errorf("tsize %d where %d was offered", ack.Size, o.Size)
	}
	return nil
}

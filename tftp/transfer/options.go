package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ranges and defaults of the options.
const (
	MinBlockSize     = 8     // RFC 2348
	MaxBlockSize     = 65464 // RFC 2348
	DefaultBlockSize = 512   // RFC 1350: the size without the option
	MaxWindow        = 65535 // RFC 7440

	MinTimeout      = time.Second // RFC 2349
	MaxTimeout      = 255 * time.Second
	MinMicroTimeout = 10 * time.Millisecond // the same value as in tftp-hpa
)

// Options holds the values that two peers agree on before data is sent. A zero field means that its
// option was not offered, or not agreed on.
type Options struct {
	BlockSize    int           // blksize: bytes per block, 8 to 65464
	Window       int           // windowsize: blocks per window, 1 to 65535
	Timeout      time.Duration // timeout: whole seconds, 1 s to 255 s
	MicroTimeout time.Duration // utimeout: whole microseconds, 10 ms to 255 s
	Rollover     Rollover      // rollover: which block number follows 65535
	PowerOfTwo   bool          // BlockSize is the value of blksize2: a server confirms a power of two
	HasSize      bool          // tsize is present, with Size as its value
	Size         int64         // bytes in the file
}

// Check returns an error for a value outside the range of its option.
func (o Options) Check() error {
	switch {
	case o.BlockSize != 0 && (o.BlockSize < MinBlockSize || o.BlockSize > MaxBlockSize):
		return fmt.Errorf("blksize %d is not in %d to %d", o.BlockSize, MinBlockSize, MaxBlockSize)
	case o.Window < 0 || o.Window > MaxWindow:
		return fmt.Errorf("windowsize %d is not in 1 to %d", o.Window, MaxWindow)
	case o.Timeout != 0 && (o.Timeout < MinTimeout || o.Timeout > MaxTimeout || o.Timeout%time.Second != 0):
		return fmt.Errorf("timeout %v is not whole seconds in %v to %v", o.Timeout, MinTimeout, MaxTimeout)
	case o.MicroTimeout != 0 && (o.MicroTimeout < MinMicroTimeout || o.MicroTimeout > MaxTimeout):
		return fmt.Errorf("utimeout %v is not in %v to %v", o.MicroTimeout, MinMicroTimeout, MaxTimeout)
	case o.Rollover > RolloverOne:
		return errors.New("rollover is not 0 or 1")
	}
	return nil
}

// Limits bounds the option values that this side accepts. A zero field sets no limit in addition to
// that of the RFC.
type Limits struct {
	BlockSize  int           // largest block, in bytes
	Window     int           // largest window, in blocks
	MinTimeout time.Duration // shortest timeout confirmed
	MaxTimeout time.Duration // longest timeout confirmed

	// Rollover is used with a peer that does not ask for one. It is not confirmed in an OACK.
	Rollover Rollover
}

// optionNames holds the names of the options that this package knows, in the lower case in which
// they are sent.
var optionNames = [...]string{"blksize", "blksize2", "tsize", "timeout", "utimeout", "windowsize", "rollover"}

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

// Has reports whether the set has the option of that name. The case of the name does not matter.
func (set OptionSet) Has(name []byte) bool {
	for i, known := range optionNames {
		if set&(1<<i) != 0 && len(name) == len(known) && bytes.EqualFold(name, []byte(known)) {
			return true
		}
	}
	return false
}

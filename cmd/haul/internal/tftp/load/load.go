// Package load puts a TFTP server under load: it acts as up to ten thousand
// clients at once, and measures what they get.
//
//	l := load.Load{
//		Target:      tftpclient.Target{Host: "192.0.2.1", Name: "kernel"},
//		Concurrency: 100,
//		Transfers:   1000,
//	}
//	report, err := l.Run(ctx)
//
// Any server will do. Each transfer has a port of its own, as that of a real
// client has, and is driven by a [tftpclient.Pool]. Nothing is kept of the files,
// but every byte is compared with what it should be.
//
// The generator often shares its processors with the server it measures. The pool
// takes little of them: a few loops, each with one epoll and one receive buffer,
// two system calls for a packet in lock-step, and one for many packets of a
// window. The [Report] has the processor time that it takes.
package load

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// Bounds of a [Load].
const (
	MaxConcurrency = 10_000  // transfers at once
	MaxNames       = 1 << 20 // different file names
	MaxLoops       = 64

	// DefaultTimeout is how long one transfer may take.
	DefaultTimeout = time.Minute

	maxMinTimer = 10 * time.Second

	// unheard is how long a server may say nothing at all before the run is
	// given up: three requests have been repeated by then.
	unheard = 8 * time.Second
)

// A Load says what to do to which server. Only Target is needed.
type Load struct {
	// Target is the server and the file. In its Name, "{}" stands for the
	// number of the transfer, from 0 to Names - 1 and again. Its mode must be
	// octet.
	Target tftpclient.Target
	Names  int // how many different names; 0 means one for each transfer

	Concurrency int // transfers under way at once, 1 to MaxConcurrency; 0 means 1
	Transfers   int // in all; 0 means Concurrency, or no limit with a Duration

	// Duration is how long transfers are begun, at least one in any case. Those
	// under way then are finished. 0 means until Transfers have been begun.
	Duration time.Duration

	// Rate is how many transfers a second begin, whether earlier ones are done
	// or not, as independent clients would; Concurrency still bounds those under
	// way. A transfer that has to wait for that is late, and the wait counts as its
	// latency. 0 means that a transfer begins where another ends.
	Rate float64

	// Warmup is how many transfers are made before, and not counted.
	Warmup int

	// Write sends files of Size bytes of test content (see [Pattern]).
	Write bool

	// Size is the length in bytes of each file. For downloads, 0 means that
	// any will do.
	Size int64

	// Pattern says that the files on the server have the test content, with
	// which each byte is compared. Without it the first download of each name
	// is what the further ones are compared with.
	Pattern bool

	// Verify has what was sent fetched again afterwards, and compared.
	Verify bool

	BlockSize int  // to ask for, in bytes, 8 to 65464; 0 asks for none: 512
	Window    int  // to ask for, in blocks, 1 to 65535; 0 asks for none: 1
	NoOptions bool // ask for no options at all; otherwise at least for tsize

	// Loss is the part of datagrams that are dropped each way, 0 to 0.9, as
	// they leave or when they have come. Seed selects which.
	Loss float64
	Seed uint64

	// Timeout is how long one transfer may take; 0 means DefaultTimeout.
	Timeout time.Duration

	// MinTimer is the shortest time to wait for an answer before a packet is
	// sent again, where the window is 1 or files are fetched. 0 leaves it to
	// the round trips measured, 10 ms at the least, as haul's client has it:
	// few other clients are as quick, and on a machine that is overloaded some
	// repeats are then needless.
	MinTimer time.Duration

	// Loops is how many threads drive the transfers, 1 to MaxLoops; 0 means 1,
	// which is right until a [Report] says that it is saturated.
	Loops int

	// Progress, if set, is called some times a second, and not after Run has returned.
	Progress func(Progress)

	unheard time.Duration // for tests; 0 means the constant
}

// A Progress is how far a run is.
type Progress struct {
	Elapsed   time.Duration
	Warmup    bool  // what follows is of the warm-up
	Done      int64 // transfers that have ended, failed ones included
	Failed    int64
	Transfers int64 // how many there will be; 0 if there is no limit
	Bytes     int64 // of file content moved
}

// Check reports what is wrong with l. Run does so too.
func (l *Load) Check() error {
	if err := l.Target.Check(); err != nil {
		return err
	}
	bad := func(what string, value any, want string) error {
		return fmt.Errorf("%s %v: must be %s", what, value, want)
	}
	offer := transfer.Options{BlockSize: l.BlockSize, Window: l.Window}
	switch {
	case l.Target.Mode != transfer.Octet:
		return bad("mode", l.Target.Mode, "octet")
	case l.Concurrency < 0 || l.Concurrency > MaxConcurrency:
		return bad("concurrency", l.Concurrency, fmt.Sprintf("1 to %d", MaxConcurrency))
	case l.Names < 0 || l.Names > MaxNames:
		return bad("names", l.Names, fmt.Sprintf("1 to %d", MaxNames))
	case l.Loops < 0 || l.Loops > MaxLoops:
		return bad("loops", l.Loops, fmt.Sprintf("1 to %d", MaxLoops))
	case l.Transfers < 0:
		return bad("transfers", l.Transfers, "above 0")
	case l.Warmup < 0:
		return bad("warmup", l.Warmup, "0 or more")
	case l.Size < 0:
		return bad("size", l.Size, "0 or more")
	case l.Duration < 0:
		return bad("duration", l.Duration, "above 0")
	case l.Timeout < 0:
		return bad("timeout", l.Timeout, "above 0")
	case l.MinTimer < 0 || l.MinTimer > maxMinTimer:
		return bad("min-timer", l.MinTimer, fmt.Sprintf("0 to %v", maxMinTimer))
	case !(l.Rate >= 0 && l.Rate <= 1e6):
		return bad("rate", l.Rate, "above 0 and at most a million")
	case !(l.Loss >= 0 && l.Loss <= 0.9):
		return bad("loss", l.Loss, "0 to 0.9: a part, not a percentage")
	case l.NoOptions && (l.BlockSize != 0 || l.Window != 0):
		return errors.New("a block size or a window needs options, and options are turned off")
	case l.Verify && !l.Write:
		return errors.New("only uploads can be fetched again to compare them; downloads are compared anyway")
	}
	return offer.Check()
}

// withDefaults returns l with its zero values replaced.
func (l *Load) withDefaults() Load {
	e := *l
	e.Concurrency = max(1, e.Concurrency)
	if e.Transfers == 0 && e.Duration == 0 {
		e.Transfers = e.Concurrency
	}
	if e.Transfers > 0 {
		e.Concurrency = min(e.Concurrency, e.Transfers)
	}
	if e.Names == 0 {
		e.Names = MaxNames
		if e.Transfers > 0 {
			e.Names = min(e.Transfers, MaxNames)
		}
	}
	if !strings.Contains(e.Target.Name, placeholder) {
		e.Names = 1
	}
	e.Loops = min(max(1, e.Loops), e.Concurrency)
	e.Timeout = cmp.Or(e.Timeout, DefaultTimeout)
	e.unheard = cmp.Or(e.unheard, unheard)
	e.Pattern = e.Pattern && !e.Write
	return e
}

// placeholder is what stands for a transfer's number in a name.
const placeholder = "{}"

// dueAt returns when the transfer with the given number begins, from the
// start of the run.
func dueAt(i int64, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}

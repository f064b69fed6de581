// Package load puts a TFTP server under load. It acts as up to ten thousand clients at once, and
// measures their transfers.
//
//	l := load.Load{
//		Target:      tftpclient.Target{Host: "192.0.2.1", Name: "kernel"},
//		Concurrency: 100,
//		Transfers:   1000,
//	}
//	report, err := l.Run(ctx)
//
// It works with any server. Each transfer has its own port, like the transfer of a real client. A
// [tftpclient.Pool] runs the transfers. The files are not stored, but every byte is compared with
// the expected content.
//
// The generator often shares its processors with the server, so the pool is designed to use little
// processor time. It has a few loops, each with one epoll and one receive buffer. In lock-step, a
// loop makes two system calls for each packet. With windows, one system call moves many packets.
// The [Report] states the processor time that the generator used.
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
	MaxConcurrency = 10_000  // largest number of transfers at once
	MaxNames       = 1 << 20 // largest number of different file names
	MaxLoops       = 64

	// DefaultTimeout is how long one transfer may take.
	DefaultTimeout = time.Minute

	maxMinTimer = 10 * time.Second

	// unheard is how long the run waits for the first packet of a server. By then requests have
	// been repeated three times.
	unheard = 8 * time.Second
)

// A Load describes the transfers of a run. Only Target is required.
type Load struct {
	// Target says which file to transfer, and with which server. In its Name, "{}" stands for the
	// number of the transfer, which counts from 0 to Names - 1 and then starts at 0 again. The mode
	// must be octet.
	Target tftpclient.Target
	Names  int // number of different names; 0 means one for each transfer

	Concurrency int // transfers under way at once, 1 to MaxConcurrency; 0 means 1
	Transfers   int // total number of transfers; 0 means Concurrency, or no limit if Duration is set

	// Duration is how long the run begins new transfers; it begins at least one. After that time it
	// completes the transfers under way. 0 means no time limit: the run ends after the number of
	// transfers in Transfers.
	Duration time.Duration

	// Rate is how many transfers begin per second, whether or not earlier ones are done, as with
	// independent clients. Concurrency still bounds the transfers under way. A transfer that has to
	// wait until another one ends is late, and its latency includes the wait. 0 means that a
	// transfer begins when another one ends.
	Rate float64

	// Warmup is how many transfers run first and are not counted.
	Warmup int

	// Write makes the transfers uploads: files of Size bytes of test content (see [Pattern]).
	Write bool

	// Size is the length of each file in bytes. For downloads, 0 accepts any size.
	Size int64

	// Pattern says that the files on the server have the test content. Each downloaded byte is then
	// compared with it. Without Pattern, each later download of a name is compared with the first
	// one.
	Pattern bool

	// Verify fetches the uploaded files after the run, and compares them with what was sent.
	Verify bool

	BlockSize int  // the block size to request, 8 to 65464 bytes; 0 requests none, which means 512
	Window    int  // the window to request, 1 to 65535 blocks; 0 requests none, which means 1
	NoOptions bool // request no options; otherwise tsize is always requested

	// Loss is the part of all datagrams that is dropped in each direction, 0 to 0.9. Seed
	// determines which ones.
	Loss float64
	Seed uint64

	// Timeout is how long one transfer may take; 0 means DefaultTimeout.
	Timeout time.Duration

	// MinTimer is the shortest time to wait for an answer before a packet is sent again, for
	// downloads and for a window of 1. With 0, the time depends on the measured round trips, but is
	// at least 10 ms, as in haul's client. Few other clients repeat packets that quickly, and on an
	// overloaded machine some of these repeats are needless.
	MinTimer time.Duration

	// Loops is how many threads drive the transfers, 1 to MaxLoops. 0 means 1, which suffices
	// unless [Report.Saturated] returns true.
	Loops int

	// Progress, if set, is called several times a second, but not after Run has returned.
	Progress func(Progress)

	unheard time.Duration // set only by tests; 0 means the constant unheard
}

// A Progress describes the state of a run that is not over.
type Progress struct {
	Elapsed   time.Duration
	Warmup    bool  // the fields below are about the warm-up
	Done      int64 // transfers that have ended, including failed ones
	Failed    int64
	Transfers int64 // number of transfers that the run will make; 0 if there is no limit
	Bytes     int64 // bytes of file content moved
}

// Check returns an error if l is invalid. Run calls it too.
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

// withDefaults returns a copy of l with defaults in place of zero values.
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

// placeholder stands for a transfer's number in a name.
const placeholder = "{}"

// dueAt returns when the transfer with the given number is due, counted from the start of the run.
func dueAt(i int64, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}

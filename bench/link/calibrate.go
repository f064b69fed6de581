package link

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// The path through the emulator costs some tens of microseconds, and up to a hundred if the
	// processor has slept. On links with a cycle longer than calibrateBelow, that is less than a
	// hundredth of the cycle, so these links are not calibrated.
	calibrateBelow = 25 * time.Millisecond

	calibrationRounds = 3 // later rounds correct the first one, because a shorter wait changes the cost of a wake-up
	calibrationTime   = 100 * time.Millisecond
	fewestPings       = 15 // smallest number of pings in a round; there are more if calibrationTime has room for them

	probeTimeout = 60 * time.Second
	busySlack    = 50 * time.Millisecond // how much later an answer may arrive if the machine has other work
)

// Each probe uses its own port, so that packets of an earlier probe do not reach a later one.
const (
	firstPort = 20000
	ports     = 10000
)

var probes atomic.Uint32

// calibrate measures the cost of the path through the emulator, and subtracts it from the delay.
func (l *Link) calibrate(ctx context.Context) error {
	want := l.profile.Cycle(documentBlock)
	if want > calibrateBelow {
		return nil
	}
	pings := max(int(calibrationTime/max(want, 100*time.Microsecond)), fewestPings)
	for range calibrationRounds {
		got, err := l.Ping(ctx, documentBlock, pings)
		if err != nil {
			return fmt.Errorf("measure what the emulator costs: %w", err)
		}
		l.lead = max(l.lead+(got.Median-want)/2, 0)
		if _, err := l.carrier.ask(setLead + strconv.FormatInt(int64(l.lead), 10)); err != nil {
			return err
		}
	}
	return nil
}

// Ping sends a TFTP block of `block` bytes from side A and waits for its acknowledgement, `count`
// times.
func (l *Link) Ping(ctx context.Context, block, count int) (Ping, error) {
	slack := busySlack
	if l.profile.Ways[A].Loss+l.profile.Ways[B].Loss == 0 {
		slack = time.Second // even on a busy machine, each answer arrives within that time
	}
	var p Ping
	err := l.probe(ctx, &p, []string{probeEcho},
		[]string{probePing, strconv.Itoa(block + ackLen), strconv.Itoa(count), l.patience(slack)})
	return p, err
}

// Stream sends datagrams of `size` bytes from side A for the time `length`, with the given number
// of datagrams (segments) in each system call.
func (l *Link) Stream(ctx context.Context, size, segments int, length time.Duration) (Stream, error) {
	var s Stream
	err := l.probe(ctx, &s, []string{probeSink, strconv.Itoa(size)},
		[]string{probeStream, strconv.Itoa(size), strconv.Itoa(segments), strconv.FormatInt(int64(length), 10), l.patience(busySlack)})
	return s, err
}

// patience returns how long an answer may take, in nanoseconds, before a probe counts it as lost.
func (l *Link) patience(slack time.Duration) string {
	return strconv.FormatInt(int64(2*l.profile.Cycle(documentBlock)+slack), 10)
}

// probe runs the probe onB on side B until the probe onA on side A has exited and printed its
// result. Both get side B's address as their second argument.
func (l *Link) probe(ctx context.Context, result any, onB, onA []string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	address := fmt.Sprintf("%s:%d", l.Addr(B), firstPort+probes.Add(1)%ports)
	with := func(side Side, args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self)
		cmd.Args = l.enterAs(side, self, asProbe, append([]string{args[0], address}, args[1:]...)...)
		cmd.Env = []string{"GODEBUG=asyncpreemptoff=1"}
		cmd.SysProcAttr = died()
		return cmd
	}
	server := with(B, onB)
	var complaint bytes.Buffer
	server.Stderr = &complaint
	ready, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	if _, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		return errors.Join(fmt.Errorf("probe %s did not start: %s", onB[0], strings.TrimSpace(complaint.String())), ctx.Err())
	}
	out, err := with(A, onA).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return fmt.Errorf("probe %s: %w", onA[0], err)
	}
	return json.Unmarshal(out, result)
}

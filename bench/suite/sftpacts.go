package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/sftpprog"
	"github.com/haul-project/haul/bench/suite/record"
)

// clientEnds is how long a client's children may keep its output open after the client has exited.
const clientEnds = 2 * time.Second

// seen holds the observations of a client from outside.
type seen struct {
	peer.Usage
	samples []sample // samples of the bytes on the wire
	packets int64    // number of packets on the wire
	out     []byte   // the client's output
}

// sftpJob returns the job of the client in the current scenario and turn.
func (st *stage) sftpJob() peer.SFTPJob {
	name := fileName(st.sc.Size, "0")
	j := peer.SFTPJob{
		Task: st.sc.task, Server: st.server.Addr(), Keys: st.keys,
		Local: filepath.Join(st.local, name), Buffer: st.sc.Buffer, Size: st.sc.Size, Limit: bufferTime,
	}
	if st.sc.Write {
		name = uploadPrefix + name
	}
	j.Remote = st.pair.Server.At(st.root, name)
	if st.tune != nil {
		st.tune(&j)
	}
	return j
}

// sftpRun makes the client do a job, and returns the observations of it.
func (st *stage) sftpRun(ctx context.Context, j peer.SFTPJob) (seen, error) {
	if err := st.keys.Trust(j.Server); err != nil {
		return seen{}, err
	}
	cmd, err := st.pair.Client.Command(ctx, st.command, j)
	if err != nil {
		return seen{}, err
	}
	var out, said bounded
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, clientEnds
	p, ok := st.server.(*peer.Process)
	if !ok {
		return seen{}, errors.New("the server is no process whose wire can be watched")
	}
	w, err := watch(p.PID(), st.link != nil, st.sc.Write)
	if err != nil {
		return seen{}, err
	}
	u, err := peer.Metered(ctx, cmd)
	samples, packets := w.close()
	s := seen{u, samples, packets, out.b}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s; the server said: %s", j.Task, err, bytes.TrimSpace(said.b), p.Log())
	}
	return s, err
}

// tally returns the tally of a client that has moved `files` files of `size` bytes in all.
func (s *seen) tally(files, size float64) tally {
	t := tally{seconds: s.Wall.Seconds(), bytes: size, figures: map[record.Metric]float64{
		record.Transfers: files, record.Failed: 0,
		record.ClientCPU:    s.CPU.Seconds(),
		record.ClientMemory: float64(s.Memory) / 1e6,
	}}
	if s.packets > 0 && size > 0 {
		t.figures[record.PacketsPerMB] = float64(s.packets) * 1e6 / size
	}
	if files > 0 {
		t.figures[record.SecondsPerFile] = s.Wall.Seconds() / files
	}
	if size > 0 {
		t.figures[record.ClientCPUPerGB] = s.CPU.Seconds() * 1e9 / size
	}
	return t
}

// sftpTransfer is an act: a program moves a file, and then the copy is compared with the original.
func sftpTransfer(ctx context.Context, st *stage, _ bool) (tally, error) {
	j := st.sftpJob()
	there, made := filepath.Join(st.root, fileName(st.sc.Size, "0")), j.Local
	if st.sc.Write {
		there = filepath.Join(st.root, uploadPrefix+fileName(st.sc.Size, "0"))
		made = there
	}
	s, err := st.sftpRun(ctx, j)
	if err != nil {
		return tally{}, errors.Join(stoppedError{err, s}, removeAll(made))
	}
	t := s.tally(1, float64(st.sc.Size))
	if from, to, ok := span(s.samples); ok && st.sc.Size > beforeData {
		t.figures[record.Login] = from.Seconds()
		t.figures[record.DataRate] = t.bytes / 1e6 / (to - from).Seconds()
		if st.link != nil {
			t.series = series(s.samples)
		}
	}
	if st.sc.RoundTrip > 0 && st.sc.Size < beforeData {
		t.figures[record.RoundTrips] = s.Wall.Seconds() * 1e3 / st.sc.RoundTrip
	}
	if !st.sc.Write {
		defer func() { _ = os.Remove(j.Local) }() // if this fails, the stage removes it later
	}
	return t, same(j.Local, there)
}

// removeAll removes the files that a stopped client has left behind: all files whose names begin
// with the name of `file`.
func removeAll(file string) error {
	all, err := filepath.Glob(file + "*")
	for _, name := range all {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

const (
	// briefTime is the time after which a transfer is stopped if its first seconds are enough.
	briefTime = 4 * time.Second

	// rampTime is the time after which a transfer is stopped that takes some seconds to reach its
	// full speed.
	rampTime = 15 * time.Second
)

// sftpBrief is the act sftpWithin with the time limit briefTime.
func sftpBrief(ctx context.Context, st *stage, warmup bool) (tally, error) {
	return sftpWithin(ctx, briefTime, st, warmup)
}

// sftpStart is the act sftpWithin with the time limit rampTime.
func sftpStart(ctx context.Context, st *stage, warmup bool) (tally, error) {
	return sftpWithin(ctx, rampTime, st, warmup)
}

// sftpWithin is like sftpTransfer, but stops the client when the time `within` is over. The result
// of such a slow client is the number of bytes that crossed the wire, which is too large by some
// hundredths.
func sftpWithin(ctx context.Context, within time.Duration, st *stage, warmup bool) (tally, error) {
	brief, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t, err := sftpTransfer(brief, st, warmup)
	if err == nil || brief.Err() == nil || ctx.Err() != nil {
		return t, err
	}
	s, ok := errors.AsType[stoppedError](err)
	if !ok || len(s.samples) == 0 {
		return t, err
	}
	last := s.samples[len(s.samples)-1]
	for _, first := range s.samples {
		if first.bytes < beforeData {
			continue
		}
		t = s.tally(1, float64(last.bytes))
		t.figures[record.Login] = first.at.Seconds()
		t.figures[record.DataRate] = float64(last.bytes-first.bytes) / 1e6 / (last.at - first.at).Seconds()
		if st.link != nil {
			t.series = series(s.samples)
		}
		return t, nil
	}
	return t, err
}

// A stoppedError is the error of a client that failed or was stopped, with the observations of the
// client.
type stoppedError struct {
	error
	seen
}

func (e stoppedError) Unwrap() error { return e.error }

// sftpBuffers is an act: a program of the suite reads or writes a file through a buffer, and
// reports how long that took after the login.
func sftpBuffers(ctx context.Context, st *stage, _ bool) (tally, error) {
	s, err := st.sftpRun(ctx, st.sftpJob())
	if err != nil {
		return tally{}, err
	}
	var r sftpprog.Result
	if err := json.Unmarshal(s.out, &r); err != nil {
		return tally{}, fmt.Errorf("what the client printed is no result: %w: %q", err, s.out)
	}
	t := s.tally(1, float64(r.Bytes))
	t.seconds = r.Seconds
	t.figures[record.Login] = r.Login
	if !st.sc.Write {
		return t, nil
	}
	info, err := os.Stat(filepath.Join(st.root, uploadPrefix+fileName(st.sc.Size, "0")))
	if err == nil && info.Size() != r.Bytes {
		err = fmt.Errorf("the server has %d bytes, and %d were written", info.Size(), r.Bytes)
	}
	return t, err
}

// same returns an error if two files differ. It does not read them into memory as a whole.
func same(here, there string) error {
	a, err := os.Open(here)
	if err != nil {
		return fmt.Errorf("what the client has: %w", err)
	}
	defer a.Close()
	b, err := os.Open(there)
	if err != nil {
		return fmt.Errorf("what the server has: %w", err)
	}
	defer b.Close()
	const piece = 1 << 20
	x, y := make([]byte, piece), make([]byte, piece)
	for offset := int64(0); ; offset += piece {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return fmt.Errorf("%s differs on the two sides, behind byte %d", filepath.Base(there), offset)
		}
		if n < piece {
			return errors.Join(beyondEnd(errA), beyondEnd(errB))
		}
	}
}

func beyondEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

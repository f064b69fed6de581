package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// maxOutput is the number of bytes of a program's output that are kept. There is a limit because
// curl prints a line for each of thousands of transfers.
const maxOutput = 1 << 20

// run runs a command and returns its standard output. The error contains the command's standard
// error.
func run(cmd *exec.Cmd) ([]byte, error) {
	var out, said bounded
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.b, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(said.b))
	}
	return out.b, nil
}

// A bounded is a writer that keeps the first maxOutput bytes written to it.
type bounded struct{ b []byte }

func (w *bounded) Write(p []byte) (int, error) {
	w.b = append(w.b, p[:min(len(p), maxOutput-len(w.b))]...)
	return len(p), nil
}

// stockClients is an act: it runs a process of the contender's client for each file, all at once,
// and then compares the files.
func stockClients(ctx context.Context, st *stage, warmup bool) (tally, error) {
	n := st.sc.Transfers
	if warmup {
		n = 1
	}
	dir, err := os.MkdirTemp(filepath.Dir(st.root), "client-")
	if err != nil {
		return tally{}, fmt.Errorf("make a directory for the clients: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // if this fails, it is removed later together with the run's directory
	if st.sc.Write {
		if err := st.writeSources(ctx, dir, n); err != nil {
			return tally{}, err
		}
	}
	took, errs := make([]time.Duration, n), make([]error, n)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = st.stockTransfer(ctx, dir, i)
			took[i] = time.Since(began)
		})
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	for i := range n {
		if errs[i] == nil {
			errs[i] = st.compareSoon(dir, i)
		}
	}
	return st.stockTally(seconds, took, errs), nil
}

// writeSources writes the files that the clients upload.
func (st *stage) writeSources(ctx context.Context, dir string, n int) error {
	_, err := run(apart(exec.CommandContext(ctx, st.suite.Haul, "bench", "files", dir,
		"--size", fmt.Sprint(st.sc.Size), "--count", fmt.Sprint(n), "--name", fileName(st.sc.Size, "{}"))))
	return err
}

func (st *stage) stockTransfer(ctx context.Context, dir string, i int) error {
	t := st.stockFile(dir, i)
	get := st.client.Get
	if st.sc.Write {
		get = st.client.Put
	}
	cmd, err := get(ctx, st.command, t)
	if errors.Is(err, peer.ErrOption) && t.Window > 0 { // request no window, as people would do with this client
		t.Window = 0
		cmd, err = get(ctx, st.command, t)
	}
	if errors.Is(err, peer.ErrOption) {
		t.BlockSize = 0
		cmd, err = get(ctx, st.command, t)
	}
	if err != nil {
		return err
	}
	out, err := cmd.CombinedOutput()
	return st.client.Check(out, err)
}

// stockFile returns the transfer of file i of the scenario.
func (st *stage) stockFile(dir string, i int) peer.Transfer {
	name := fileName(st.sc.Size, fmt.Sprint(i))
	t := peer.Transfer{
		Server: st.server.Addr(), Remote: name, Local: filepath.Join(dir, name),
		BlockSize: st.sc.BlockSize, Window: st.sc.Window,
	}
	if st.sc.Write {
		t.Remote = uploadPrefix + name
	}
	return t
}

const (
	writeTries = 20 // number of attempts to compare an upload that is not complete
	writePause = 50 * time.Millisecond
)

// compareSoon compares a file as compare does. It repeats the comparison for some time, because a
// server may acknowledge an upload before the file is written.
func (st *stage) compareSoon(dir string, i int) error {
	err := st.compare(dir, i)
	for range writeTries {
		if err == nil || !st.sc.Write {
			break
		}
		time.Sleep(writePause)
		err = st.compare(dir, i)
	}
	return err
}

// compare returns an error if a file differs on the two sides. If the server does not store
// uploads, it returns nil.
func (st *stage) compare(dir string, i int) error {
	t := st.stockFile(dir, i)
	here, err := os.ReadFile(t.Local)
	if err != nil {
		return fmt.Errorf("what the client wrote: %w", err)
	}
	there, err := os.ReadFile(filepath.Join(st.root, t.Remote))
	if st.sc.Write && errors.Is(err, os.ErrNotExist) && !st.stores {
		return nil
	}
	if err != nil {
		return fmt.Errorf("what the server has: %w", err)
	}
	if !bytes.Equal(here, there) {
		return fmt.Errorf("%s differs: %d bytes here, %d at the server", t.Remote, len(here), len(there))
	}
	return nil
}

// stockTally returns the tally of the clients. The number of packets is known only without options,
// because only then is the block size known.
func (st *stage) stockTally(seconds float64, took []time.Duration, errs []error) tally {
	t := tally{seconds: seconds}
	failed := 0
	for i, err := range errs {
		if err != nil {
			failed++
			t.warnings = append(t.warnings, fmt.Sprintf("transfer %d failed: %v", i, err))
		}
	}
	done := float64(len(took) - failed)
	t.bytes = done * float64(st.sc.Size)
	if st.sc.NoOptions {
		t.packets = done * float64(st.sc.Size/512+1)
	}
	slices.Sort(took)
	t.figures = map[record.Metric]float64{
		record.Transfers: float64(len(took)), record.Failed: float64(failed),
		record.SecondsPerFile: took[len(took)/2].Seconds(),
	}
	return t
}

// plainGet is an act: it runs haul get without any flag. haul prints the duration of the transfer,
// which does not include the start of the program.
func plainGet(ctx context.Context, st *stage, warmup bool) (tally, error) {
	size := st.sc.Size
	if warmup {
		size = st.warmupSize()
	}
	url := fmt.Sprintf("tftp://%s/%s", st.server.Addr(), fileName(size, "0"))
	cmd := st.command(ctx, st.suite.Haul, "get", url, "-")
	var said bounded
	cmd.Stderr = &said // the file is written to standard output, which is the null device
	if err := cmd.Run(); err != nil {
		return tally{}, fmt.Errorf("haul get: %w: %s", err, bytes.TrimSpace(said.b))
	}
	took, err := saidDuration(string(said.b))
	if err != nil {
		return tally{}, err
	}
	return tally{
		seconds: took.Seconds(), bytes: float64(size),
		figures: map[record.Metric]float64{record.Transfers: 1, record.Failed: 0, record.SecondsPerFile: took.Seconds()},
	}, nil
}

// saidIn matches the duration in a line such as "kernel.img: 4.2 MB in 13ms, 320.2 MB/s, 0
// resends".
var saidIn = regexp.MustCompile(` in (\S+), `)

func saidDuration(line string) (time.Duration, error) {
	m := saidIn.FindStringSubmatch(line)
	if m == nil {
		return 0, fmt.Errorf("haul get said %q, which has no duration", strings.TrimSpace(line))
	}
	return time.ParseDuration(m[1])
}

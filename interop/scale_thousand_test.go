//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	thousand     = 1000
	thousandSize = 100_000 // bytes of the smallest file; each has one byte more than the one before

	// The memory that haul serve may use, in bytes, in addition to what its transfers hold of
	// --memory. The documentation promises these figures.
	memoryFixed    = 24 << 20
	memoryLoop     = 20 << 20 // each CPU has a loop, with room for many datagrams
	memoryTransfer = 16 << 10
	memoryBuffers  = 128 << 20 // --memory's default

	spareDescriptors = 4 // for those who read the metrics
)

// A thousand simultaneous transfers each have their own file: every one is held after its first
// block until the server reports that all are running, and then continues to the end.
func TestThousand(t *testing.T) {
	small, large := options{block: 1428}, options{block: 1428, window: 8}
	for _, c := range []crowd{
		{name: "downloads in lock-step", ask: small, buffers: thousand * 8 << 10},
		{name: "downloads in windows", ask: large, buffers: 0},
		{name: "downloads of what is not in memory", ask: large, cold: true, buffers: thousand * 64 << 10},
		{name: "uploads in lock-step", ask: small, write: true, buffers: memoryBuffers},
		{name: "uploads in windows", ask: options{block: 1428, window: 16}, write: true, buffers: memoryBuffers},
		// Together these windows exceed all the memory.
		{name: "uploads in wide windows", ask: options{block: 1428, window: 64}, write: true, buffers: memoryBuffers},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, thousand) })
	}
}

// A crowd is a thousand transfers of one kind.
type crowd struct {
	name    string
	ask     options
	write   bool
	cold    bool  // the files are not in the page cache when the transfers begin
	buffers int64 // how much these transfers may hold of --memory, in bytes
}

func (c crowd) run(t *testing.T, many int) {
	dir := t.TempDir()
	if !c.write {
		c.fill(t, dir, many)
	}
	m := serveMetered(t, dir, "--upload", "create")
	began, open := m.memory(t, "VmRSS"), m.descriptors(t)

	var failed failures
	release := make(chan struct{})
	var all sync.WaitGroup
	var let sync.Once
	end := func() {
		let.Do(func() { close(release) })
		all.Wait()
	}
	defer end()
	for i := range many {
		all.Go(func() {
			if err := c.one(m, i, release); err != nil {
				failed.add(err)
			}
		})
	}
	s := m.await(t, "all transfers under way", func(s sample) bool {
		return s["haul_transfers_live"] == float64(many) || failed.any()
	})
	held, most := m.memory(t, "VmRSS"), m.descriptors(t)
	end()
	if failed.report(t) {
		return
	}
	peak := m.memory(t, "VmHWM")
	t.Logf("VmRSS at the start %s, held %s, VmHWM %s: %.1f KiB a transfer; buffers %s; descriptors %d and %.3f a transfer",
		inMiB(began), inMiB(held), inMiB(peak), float64(peak-began)/float64(many)/1024, inMiB(int64(s["haul_tftp_buffer_bytes"])),
		open, float64(most-open)/float64(many))

	if bound := int64(memoryFixed+runtime.NumCPU()*memoryLoop+many*memoryTransfer) + c.buffers; peak > bound {
		t.Errorf("the server had %s in memory, more than the %s promised", inMiB(peak), inMiB(bound))
	}
	each := 1 // for the file
	if c.write {
		each = 2 // and for its directory
	}
	if most > open+many*each+spareDescriptors {
		t.Errorf("%d descriptors for %d transfers, and %d for none: want at most %d each", most, many, open, each)
	}
	m.await(t, "nothing live, and no descriptor left over", func(s sample) bool {
		return s["haul_transfers_live"] == 0 && m.descriptors(t) <= open+spareDescriptors
	})
	if c.write {
		for i := range many {
			wantFile(t, filepath.Join(dir, c.file(i)), content(thousandSize+i))
		}
	}
	m.healthy(t)
	if err := m.stop(); err != nil {
		t.Errorf("haul serve, told to end: %v", err)
	}
}

func (c crowd) file(i int) string { return fmt.Sprintf("f%d", i) }

// fill writes the files to fetch.
func (c crowd) fill(t *testing.T, dir string, many int) {
	t.Helper()
	for i := range many {
		f, err := os.Create(filepath.Join(dir, c.file(i)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(content(thousandSize + i))
		if err == nil && c.cold {
			if err = f.Sync(); err == nil {
				err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// one moves file i, and holds it at its first block until release is closed.
func (c crowd) one(m *metered, i int, release <-chan struct{}) error {
	p, err := newRawPeer(m.addr, scalePatience)
	if err != nil {
		return err
	}
	defer p.close()
	p.middle = func(again func()) error {
		tick := time.NewTicker(5 * time.Second) // the server accepts 30 s of silence
		defer tick.Stop()
		for {
			select {
			case <-release:
				return nil
			case <-tick.C:
				again()
			}
		}
	}
	want := content(thousandSize + i)
	if c.write {
		return p.put(c.file(i), want, c.ask, int64(len(want)))
	}
	got, err := p.get(c.file(i), c.ask)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("get %s: %d bytes are not the %d that it has", c.file(i), len(got), len(want))
	}
	return err
}

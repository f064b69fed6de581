package load

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// start starts a server and returns a Target on it.
func start(t *testing.T, s tftp.Config) tftpclient.Target {
	t.Helper()
	s.Grace = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	l, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error("server:", err)
		}
	})
	return tftpclient.Target{Host: "127.0.0.1", Port: l.Addr().Port(), Name: "file"}
}

// serve starts a server on which every file has the given content.
func serve(t *testing.T, content []byte) tftpclient.Target {
	t.Helper()
	return start(t, tftp.Config{Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
		return store.FromBytes(r.Name, content), nil
	}})
}

// content returns the first size bytes of the test content.
func content(t *testing.T, size int64) []byte {
	t.Helper()
	b, err := io.ReadAll(Pattern(size))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// finish runs a load, which must complete all its transfers.
func finish(t *testing.T, l Load) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := l.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantAll fails the test unless the given number of transfers succeeded and moved the given number
// of bytes, and no transfer failed.
func wantAll(t *testing.T, r Report, transfers, bytes int64) {
	t.Helper()
	if r.Transfers != transfers || r.Failed != 0 || len(r.Errors) != 0 || r.Cut != 0 {
		t.Errorf("%d transfers, %d failed, %d cut, errors %v; want %d and no failure", r.Transfers, r.Failed, r.Cut, r.Errors, transfers)
	}
	if r.Bytes != bytes {
		t.Errorf("%d bytes, want %d", r.Bytes, bytes)
	}
	if r.Duration <= 0 || r.Latency.Max <= 0 || r.Latency.P50 > r.Latency.P99 || r.First.Max > r.Latency.Max {
		t.Errorf("times make no sense: %+v", r)
	}
}

// wantErrors fails the test unless the given number of transfers failed, all for the same reason.
func wantErrors(t *testing.T, r Report, failed int64, text string) {
	t.Helper()
	if r.Failed != failed || len(r.Errors) != 1 {
		t.Fatalf("%d failed: %v; want %d for one reason", r.Failed, r.Errors, failed)
	}
	if got := slices.Collect(maps.Keys(r.Errors))[0]; !strings.Contains(got, text) {
		t.Errorf("error %q, want one with %q", got, text)
	}
}

func TestDownloads(t *testing.T) {
	const size = 100_000
	for _, tt := range []struct {
		name          string
		load          Load
		block, window int
	}{
		{"lock-step", Load{}, 512, 1},
		{"no options", Load{NoOptions: true}, 512, 1},
		{"blksize", Load{BlockSize: 1468}, 1468, 1},
		{"window", Load{BlockSize: 1468, Window: 16}, 1468, 16},
		{"large blocks", Load{BlockSize: transfer.MaxBlockSize, Window: 4}, transfer.MaxBlockSize, 4},
		{"two loops", Load{Loops: 2}, 512, 1},
		{"verified", Load{Pattern: true, Size: size}, 512, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.load
			l.Target = serve(t, content(t, size))
			l.Concurrency, l.Transfers = 4, 10
			r := finish(t, l)
			wantAll(t, r, 10, 10*size)
			if r.BlockSize != tt.block || r.Window != tt.window {
				t.Errorf("blksize %d, windowsize %d; want %d, %d", r.BlockSize, r.Window, tt.block, tt.window)
			}
			if want := 10 * int64(size/tt.block+1); r.Packets != want {
				t.Errorf("%d packets, want %d", r.Packets, want)
			}
		})
	}
}

// Files that consist of whole blocks end in an empty block, and so do empty files.
func TestSizes(t *testing.T) {
	for _, size := range []int64{0, 1, 511, 512, 513, 1024} {
		target := serve(t, content(t, size))
		wantAll(t, finish(t, Load{Target: target, Pattern: true, Size: size, Transfers: 3}), 3, 3*size)
	}
}

func TestUploads(t *testing.T) {
	const size = 100_000
	for _, tt := range []struct {
		name string
		load Load
	}{
		{"lock-step", Load{}},
		{"no options", Load{NoOptions: true}},
		{"window", Load{BlockSize: 1468, Window: 32}},
		{"loss", Load{BlockSize: 1468, Window: 8, Loss: 0.01, Seed: 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.load
			mem := store.Mem(0)
			l.Target = start(t, tftp.Config{Store: mem, Upload: tftp.OverwriteUploads})
			l.Target.Name = "up{}"
			l.Write, l.Size, l.Verify = true, size, true
			l.Concurrency, l.Transfers = 4, 8
			r := finish(t, l)
			wantAll(t, r, 8, 8*size)
			if r.Verified != 8 {
				t.Errorf("%d were verified, want 8", r.Verified)
			}
			f, err := mem.Open(t.Context(), "up7")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := io.ReadAll(io.NewSectionReader(f, 0, size+1))
			if err != nil || string(got) != string(content(t, size)) {
				t.Errorf("up7 has %d bytes (%v), or not the right ones", len(got), err)
			}
		})
	}
}

// Verify finds data that a server has lost or changed, when it fetches the files again.
func TestVerifyFindsWhatWasLost(t *testing.T) {
	mem := store.Mem(0)
	target := start(t, tftp.Config{
		Store: mem, Upload: tftp.OverwriteUploads,
		Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
			return store.FromBytes(r.Name, make([]byte, 1000)), nil
		},
	})
	r := finish(t, Load{Target: target, Write: true, Size: 1000, Verify: true, Transfers: 2})
	wantErrors(t, r, 1, "fetched again: content differs")
}

func TestLoss(t *testing.T) {
	const size = 200_000
	for _, window := range []int{0, 16} {
		target := serve(t, content(t, size))
		r := finish(t, Load{Target: target, Pattern: true, Size: size, BlockSize: 1468, Window: window, Loss: 0.02, Seed: 7, Concurrency: 8})
		wantAll(t, r, 8, 8*size)
		if r.Timeouts+r.Resent+r.Duplicates == 0 {
			t.Errorf("window %d: nothing was lost: %+v", window, r)
		}
	}
}

func TestWrongContent(t *testing.T) {
	const size = 50_000
	bad := content(t, size)
	bad[40_000] ^= 1
	target := serve(t, bad)
	t.Run("not the pattern", func(t *testing.T) {
		wantErrors(t, finish(t, Load{Target: target, Pattern: true, Transfers: 3}), 3, "content differs from haul's test content")
	})
	t.Run("length", func(t *testing.T) {
		wantErrors(t, finish(t, Load{Target: target, Size: size + 1, Transfers: 3}), 3, "50000 bytes came instead of 50001")
	})
	t.Run("not the same twice", func(t *testing.T) {
		var mu sync.Mutex
		asked := 0
		good := content(t, size)
		target := start(t, tftp.Config{Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked++; asked == 3 {
				return store.FromBytes(r.Name, bad), nil
			}
			return store.FromBytes(r.Name, good), nil
		}})
		wantErrors(t, finish(t, Load{Target: target, Transfers: 5}), 1, "first download")
	})
}

func TestMissingFile(t *testing.T) {
	target := start(t, tftp.Config{Read: func(context.Context, *tftp.Request) (store.File, error) { return nil, fs.ErrNotExist }})
	r := finish(t, Load{Target: target, Concurrency: 3, Transfers: 7})
	wantErrors(t, r, 7, "file not found")
	if r.Transfers != 7 || r.Latency.Max != 0 {
		t.Errorf("%d transfers, latency %v; want 7 without", r.Transfers, r.Latency)
	}
}

// After Names transfers, the number in the name starts at 0 again. The warm-up requests the first
// names too, but is not counted.
func TestNames(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	target := start(t, tftp.Config{Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
		mu.Lock()
		asked[r.Name]++
		mu.Unlock()
		return store.FromBytes(r.Name, []byte(r.Name)), nil
	}})
	target.Name = "a{}b"
	r := finish(t, Load{Target: target, Names: 3, Transfers: 7, Warmup: 2})
	wantAll(t, r, 7, 7*3)
	mu.Lock()
	defer mu.Unlock()
	want := map[string]int{"a0b": 4, "a1b": 3, "a2b": 2}
	if !maps.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}

// closedPort returns a port on which no server answers, and the socket that holds it.
func closedPort(t *testing.T) (net.PacketConn, uint16) {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, uint16(c.LocalAddr().(*net.UDPAddr).Port)
}

// If there is no answer at all, the run ends soon, and the error says what to check.
func TestSilentServer(t *testing.T) {
	_, port := closedPort(t) // the port is in fact open, but nothing reads from it
	l := Load{Target: tftpclient.Target{Host: "127.0.0.1", Port: port, Name: "x"}, Concurrency: 5, unheard: 50 * time.Millisecond}
	r, err := l.Run(t.Context())
	if !errors.Is(err, transfer.ErrSilent) || !strings.Contains(err.Error(), "is a server there") {
		t.Errorf("Run says %v", err)
	}
	if r.Bytes != 0 {
		t.Errorf("report %+v", r)
	}
}

func TestTimeout(t *testing.T) {
	target := start(t, tftp.Config{Read: func(ctx context.Context, r *tftp.Request) (store.File, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	l := Load{Target: target, Concurrency: 2, Transfers: 4, Timeout: 50 * time.Millisecond, unheard: patience}
	r, err := l.Run(t.Context())
	if !errors.Is(err, transfer.ErrSilent) || !strings.Contains(err.Error(), "nothing came in 50ms") {
		t.Errorf("Run says %v", err)
	}
	wantErrors(t, r, 4, "not done in 50ms")
}

// When the context ends, transfers under way are aborted, and the completed ones are reported.
func TestInterrupted(t *testing.T) {
	target := start(t, tftp.Config{Read: func(ctx context.Context, r *tftp.Request) (store.File, error) {
		if r.Name != "f0" {
			<-ctx.Done()
		}
		return store.FromBytes(r.Name, []byte("x")), nil
	}})
	target.Name = "f{}"
	ctx, cancel := context.WithCancel(t.Context())
	l := Load{Target: target, Concurrency: 3, Transfers: 10, Names: 10}
	l.Progress = func(p Progress) {
		if p.Done > 0 {
			cancel()
		}
	}
	r, err := l.Run(ctx)
	if !errors.Is(err, context.Canceled) || r.Transfers != 1 || r.Failed != 0 || r.Cut < 2 {
		t.Errorf("Run says %v, %+v", err, r)
	}
}

func TestManyAtOnce(t *testing.T) {
	if ownprocess.OpenFiles() < 3000 {
		t.Skip("needs 3000 open files")
	}
	target := serve(t, content(t, 2000))
	r := finish(t, Load{Target: target, Pattern: true, Size: 2000, Concurrency: 1000, Transfers: 2000, Loops: 2})
	wantAll(t, r, 2000, 2000*2000)
}

// With a rate, transfers begin at regular intervals, no matter how soon earlier ones end.
func TestRate(t *testing.T) {
	target := serve(t, []byte("x"))
	r := finish(t, Load{Target: target, Rate: 200, Transfers: 21, Concurrency: 21})
	wantAll(t, r, 21, 21)
	if least := 100 * time.Millisecond; r.Duration < least {
		t.Errorf("21 transfers at 200 a second took %v, want at least %v", r.Duration, least)
	}
}

// If the allowed number of transfers is under way, the next one is late, and its latency includes
// the wait.
func TestLate(t *testing.T) {
	target := start(t, tftp.Config{Read: func(ctx context.Context, r *tftp.Request) (store.File, error) {
		time.Sleep(30 * time.Millisecond)
		return store.FromBytes(r.Name, nil), nil
	}})
	r := finish(t, Load{Target: target, Rate: 1000, Transfers: 4, Concurrency: 1})
	wantAll(t, r, 4, 0)
	if r.Late == 0 || r.Latency.Max < 100*time.Millisecond {
		t.Errorf("%d late, latency %+v; want late ones, and at least 100 ms", r.Late, r.Latency)
	}
}

func TestDuration(t *testing.T) {
	target := serve(t, []byte("x"))
	r := finish(t, Load{Target: target, Duration: 50 * time.Millisecond, Concurrency: 2})
	if r.Transfers < 1 || r.Failed != 0 {
		t.Errorf("%+v", r)
	}
}

func TestCheck(t *testing.T) {
	good := tftpclient.Target{Host: "h", Name: "f"}
	text := good
	text.Mode = transfer.Netascii
	for want, l := range map[string]Load{
		"no host":                {},
		"mode netascii":          {Target: text},
		"concurrency 10001":      {Target: good, Concurrency: 10_001},
		"names -1":               {Target: good, Names: -1},
		"loops 65":               {Target: good, Loops: 65},
		"transfers -1":           {Target: good, Transfers: -1},
		"warmup -1":              {Target: good, Warmup: -1},
		"size -1":                {Target: good, Size: -1},
		"duration -1s":           {Target: good, Duration: -time.Second},
		"timeout -1s":            {Target: good, Timeout: -time.Second},
		"min-timer 1m0s":         {Target: good, MinTimer: time.Minute},
		"rate -1":                {Target: good, Rate: -1},
		"loss 1:":                {Target: good, Loss: 1},
		"options are turned off": {Target: good, NoOptions: true, Window: 2},
		"fetched again":          {Target: good, Verify: true},
		"blksize 7":              {Target: good, BlockSize: 7},
	} {
		if _, err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run says %v, want %q", err, want)
		}
	}
}

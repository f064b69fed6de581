package bootload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

var (
	loader = bytes.Repeat([]byte("loader "), 3000)
	image  = bytes.Repeat([]byte("the image "), 40_000)
)

// serveLoader starts a TFTP server that reads with open, and returns the URL of the loader.
func serveLoader(t *testing.T, open func() ([]byte, error)) tftpclient.Target {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := tftp.Config{Grace: time.Millisecond, Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
		b, err := open()
		if err != nil {
			return nil, err
		}
		return store.FromBytes(r.Name, b), nil
	}}
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
	return tftpclient.Target{Host: "127.0.0.1", Port: l.Addr().Port(), Name: "loader"}
}

// serveImage starts a web server, and returns the URL of the image.
func serveImage(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL + "/image")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func goodLoader() ([]byte, error) { return loader, nil }

func goodImage(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "image", time.Time{}, bytes.NewReader(image))
}

// config returns a fleet that retries quickly.
func config(machines int) *Config {
	f := boot.EDK2
	f.Pause = time.Millisecond
	return &Config{Machines: machines, Plan: boot.Plan{Firmware: f, Stall: patience, Tries: boot.DefaultTries, Away: time.Millisecond, Seed: 1}}
}

// start boots a fleet.
func start(t *testing.T, c *Config) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := c.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantUp fails the test unless all machines of a fleet came up.
func wantUp(t *testing.T, r Report, c *Config) {
	t.Helper()
	if r.Up() != c.Machines || r.Failed != 0 || r.Cut != 0 || len(r.Failures) != 0 {
		t.Fatalf("%d of %d came up, %d failed, %d cut: %v", r.Up(), c.Machines, r.Failed, r.Cut, r.Failures)
	}
	half, _ := r.When(0.5)
	all, ok := r.When(1)
	if !ok || half <= 0 || half > all || all > r.Duration || r.Took(1) <= 0 {
		t.Errorf("times make no sense: %v, %v of %v, %v", half, all, r.Duration, r.Took(1))
	}
}

// Machines get a loader and an image from each of several servers, and arrive according to the
// curve.
func TestFleet(t *testing.T) {
	c := config(60)
	c.Arrival = boot.Arrival{Over: 50 * time.Millisecond}
	for range 3 {
		c.Loaders = append(c.Loaders, serveLoader(t, goodLoader))
		c.Images = append(c.Images, serveImage(t, goodImage))
	}
	r := start(t, c)
	wantUp(t, r, c)
	if r.LoaderSize != int64(len(loader)) || r.ImageSize != int64(len(image)) || r.Bytes() != 60*int64(len(loader)+len(image)) {
		t.Errorf("sizes %d and %d, %d bytes in all", r.LoaderSize, r.ImageSize, r.Bytes())
	}
	for _, s := range append(r.Loaders, r.Images...) {
		if s.Transfers == 0 || s.Failed != 0 || s.Bytes == 0 {
			t.Errorf("%s: %+v", s.URL, s)
		}
	}
	if last := r.arrived[len(r.arrived)-1]; last < 40*time.Millisecond {
		t.Errorf("the last machine was switched on after %v", last)
	}
}

// Machines that lose power start over, and all come up. They abandon their transfers without
// notifying the server.
func TestLost(t *testing.T) {
	c := config(40)
	c.Plan.Lost = 1
	c.Loaders, c.Images = []tftpclient.Target{serveLoader(t, goodLoader)}, []*url.URL{serveImage(t, goodImage)}
	r := start(t, c)
	wantUp(t, r, c)
	if r.Count.Cycles != 40 || r.Count.Loader <= 40*int64(len(loader)) || r.Loaders[0].Failed+r.Images[0].Failed != 0 {
		t.Errorf("%+v", r)
	}
}

// breakOff sends a part of the image, and closes the connection.
func breakOff(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Length", fmt.Sprint(len(image)))
	_, _ = w.Write(image[:n])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// After a loss an image is resumed with a range, from another server, and its content is right.
func TestResume(t *testing.T) {
	var ranges atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			breakOff(w, 200_000)
		}
		ranges.Add(1)
		goodImage(w, r)
	}
	c := config(10)
	c.Images = []*url.URL{serveImage(t, handler), serveImage(t, handler)}
	r := start(t, c)
	wantUp(t, r, c)
	if ranges.Load() != 10 || r.Count.Resumes != 10 || r.Count.Again != 0 || r.Count.Image != 10*int64(len(image)) || r.Retried["image: connection lost"] != 10 {
		t.Errorf("%d ranges, %+v, %v", ranges.Load(), r.Count, r.Retried)
	}
}

// If the machine or the server does not support ranges, an image is fetched from its start.
func TestNoResume(t *testing.T) {
	for name, resume := range map[string]bool{"the machine has no ranges": false, "the server has none": true} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			c := config(1)
			c.Plan.NoResume = !resume
			c.Images = []*url.URL{serveImage(t, func(w http.ResponseWriter, r *http.Request) {
				if (r.Header.Get("Range") != "") != (resume && asked.Load() > 0) {
					t.Errorf("asks for %q", r.Header.Get("Range"))
				}
				if asked.Add(1) == 1 {
					breakOff(w, 200_000)
				}
				_, _ = w.Write(image)
			})}
			r := start(t, c)
			wantUp(t, r, c)
			if r.Count.Again != 1 || r.Count.Image != int64(len(image))+200_000 {
				t.Errorf("%+v", r.Count)
			}
		})
	}
}

// A wrong byte, a short file and a refusal fail a machine, with the cause.
func TestFailures(t *testing.T) {
	bad := bytes.Clone(image)
	bad[len(bad)/2] ^= 1
	var asked atomic.Int64
	for cause, c := range map[string]func(c *Config){
		"image: content differs from that of the first machine": func(c *Config) {
			c.Images = []*url.URL{serveImage(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 {
					_, _ = w.Write(bad)
					return
				}
				goodImage(w, r)
			})}
		},
		"loader: content differs from that of the first machine": func(c *Config) {
			var asked atomic.Int64
			c.Loaders = []tftpclient.Target{serveLoader(t, func() ([]byte, error) {
				if asked.Add(1) == 1 {
					return loader[:len(loader)-1], nil
				}
				return loader, nil
			})}
		},
		"image: HTTP 404 Not Found": func(c *Config) {
			c.Images = []*url.URL{serveImage(t, http.NotFound)}
		},
		"loader: peer says file not found": func(c *Config) {
			c.Loaders = []tftpclient.Target{serveLoader(t, func() ([]byte, error) { return nil, fs.ErrNotExist })}
		},
		"image: the server sends another range than asked for": func(c *Config) {
			c.Plan.Tries = 2
			c.Images = []*url.URL{serveImage(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") == "" {
					breakOff(w, 1000)
				}
				w.Header().Set("Content-Range", "bytes 7-9/10")
				w.WriteHeader(http.StatusPartialContent)
			})}
		},
	} {
		t.Run(cause, func(t *testing.T) {
			cfg := config(3)
			c(cfg)
			r := start(t, cfg)
			found := 0
			for text, n := range r.Failures {
				if !strings.HasPrefix(text, cause) {
					t.Errorf("failed for %q", text)
				}
				found += n
			}
			if found == 0 || found != r.Failed || r.Up()+r.Failed != 3 {
				t.Errorf("%d up, %d failed: %v", r.Up(), r.Failed, r.Failures)
			}
		})
	}
}

// A machine gives up on a stalled server after a time.
func TestStall(t *testing.T) {
	var asked atomic.Int64
	c := config(1)
	c.Plan.Stall = 50 * time.Millisecond
	c.Images = []*url.URL{serveImage(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			goodImage(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(image)))
		_, _ = w.Write(image[:1000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})}
	r := start(t, c)
	wantUp(t, r, c)
	if r.Retried["image: "+errStalled.Error()] != 1 || r.Count.Resumes != 1 {
		t.Errorf("%v, %+v", r.Retried, r.Count)
	}
}

// Firmware waits longer than haul's client before it repeats a request, and gives up earlier: a
// silent server gets one request for each try. The run ends after two tries.
func TestFirmwareTimers(t *testing.T) {
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := config(1)
	c.Plan.Firmware.Repeat, c.Plan.Firmware.Silence = patience, 400*time.Millisecond
	c.Loaders = []tftpclient.Target{{Host: "127.0.0.1", Port: uint16(conn.LocalAddr().(*net.UDPAddr).Port), Name: "loader"}}
	if _, err := c.Run(t.Context()); !errors.Is(err, transfer.ErrSilent) {
		t.Errorf("Run says %v", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	requests := 0
	for b := make([]byte, 2000); requests < 3; {
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			break
		}
		if n > 2 && b[1] == 1 {
			requests++
		}
	}
	if requests != 2 {
		t.Errorf("it asked %d times", requests)
	}
}

// If no server listens, the run ends soon with that error.
func TestNobodyListens(t *testing.T) {
	u := serveImage(t, goodImage)
	closed := httptest.NewServer(http.NotFoundHandler())
	gone, _ := url.Parse(closed.URL)
	closed.Close()
	c := config(50)
	c.Images = []*url.URL{gone}
	if r, err := c.Run(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) || r.Up() != 0 {
		t.Errorf("Run says %v, %d up", err, r.Up())
	}
	c.Images = append(c.Images, u)
	wantUp(t, start(t, c), c)
}

// An interrupted run reports its results so far, and leaks nothing.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := config(8)
	c.Loaders = []tftpclient.Target{serveLoader(t, goodLoader)}
	var asked atomic.Int64
	c.Images = []*url.URL{serveImage(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 8 {
			cancel()
		}
		<-r.Context().Done()
	})}
	r, err := c.Run(ctx)
	if !errors.Is(err, context.Canceled) || r.Cut != 8 || r.Loaders[0].Transfers != 8 || r.Failed != 0 {
		t.Errorf("Run says %v, %+v", err, r)
	}
}

func TestCheck(t *testing.T) {
	good, _ := url.Parse("http://h/i")
	ftp, _ := url.Parse("ftp://h/i")
	for want, change := range map[string]func(*Config){
		"machines 0:":        func(c *Config) { c.Machines = 0 },
		"machines 10001":     func(c *Config) { c.Machines = MaxMachines + 1 },
		"both missing":       func(c *Config) { c.Images = nil },
		"not of the form":    func(c *Config) { c.Images = []*url.URL{ftp} },
		"no host given":      func(c *Config) { c.Loaders = []tftpclient.Target{{Name: "x"}} },
		"mode octet":         func(c *Config) { c.Loaders = []tftpclient.Target{{Host: "h", Name: "x", Mode: transfer.Netascii}} },
		"image is given 65":  func(c *Config) { c.Images = make([]*url.URL, 65) },
		"loader is given 65": func(c *Config) { c.Loaders = make([]tftpclient.Target, 65) },
		"lost 150":           func(c *Config) { c.Plan.Lost = 1.5 },
		"tries 0":            func(c *Config) { c.Plan.Tries = 0 },
		"stall 0s":           func(c *Config) { c.Plan.Stall = 0 },
		"away -1s":           func(c *Config) { c.Plan.Away = -time.Second },
	} {
		c := config(1)
		c.Images = []*url.URL{good}
		change(c)
		if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run says %v, want %q", err, want)
		}
	}
}

// Blocks in another order give the same hash.
func TestContentOutOfOrder(t *testing.T) {
	var a, b content
	s := maphash.MakeSeed()
	a.begin(s)
	b.begin(s)
	a.write([]byte("0123456789"))
	for _, off := range []int64{2, 0, 6, 8, 4} {
		b.writeAt(off, []byte("0123456789")[off:off+2])
	}
	if a.digest() != b.digest() || len(b.ahead) != 0 {
		t.Errorf("%v and %v, %d kept", a.digest(), b.digest(), len(b.ahead))
	}
}

// The report as text, JSON and picture has the figures of the run.
func TestReports(t *testing.T) {
	c := config(4)
	c.Plan.Firmware = boot.IPXE
	c.Loaders, c.Images = []tftpclient.Target{serveLoader(t, goodLoader)}, []*url.URL{serveImage(t, goodImage)}
	r := start(t, c)
	wantUp(t, r, c)
	var text, object, picture bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&object, c), r.WriteSVG(&picture)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4, of which 4 came up", "50 % up", "100 % up", "0 lost power", c.Loaders[0].String(), "4 transfers, 0 failed"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	var got map[string]any
	if err := json.Unmarshal(object.Bytes(), &got); err != nil || got["up"] != 4.0 || got["firmware"] != "ipxe" {
		t.Errorf("%v in %s", err, object.String())
	}
	wantXML(t, picture.String())
}

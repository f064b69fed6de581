package httpd

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	stdlog "log"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// Only faults on this side are failures, and only events that need attention are warnings.
func TestHTTPOutcome(t *testing.T) {
	for _, test := range []struct {
		status int
		err    error
		level  slog.Level
		result meter.Result
	}{
		{200, nil, slog.LevelInfo, meter.Done},
		{404, fs.ErrNotExist, slog.LevelInfo, meter.Refused},
		{403, fs.ErrPermission, slog.LevelWarn, meter.Refused},
		{500, syscall.EIO, slog.LevelWarn, meter.Failed},
		{503, context.Canceled, slog.LevelWarn, meter.Failed},
		{503, fmt.Errorf("%w: %w", web.ErrGivenUp, context.Canceled), slog.LevelInfo, meter.PeerEnded},
		{400, web.ErrCutOff, slog.LevelWarn, meter.PeerEnded},
		{200, os.ErrDeadlineExceeded, slog.LevelWarn, meter.PeerSilent},
		{200, syscall.EPIPE, slog.LevelInfo, meter.PeerEnded},
		{200, web.ErrShrunk, slog.LevelWarn, meter.Failed},
	} {
		level, result := outcomeOf(&web.Exchange{Method: http.MethodGet, Status: test.status, Err: test.err})
		if level != test.level || result != test.result {
			t.Errorf("%d, %v: %v %q, want %v %q", test.status, test.err, level, result, test.level, test.result)
		}
	}
	for status, want := range map[int]slog.Level{405: slog.LevelWarn, 409: slog.LevelWarn, 413: slog.LevelWarn, 401: slog.LevelInfo, 412: slog.LevelInfo, 423: slog.LevelInfo} {
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			if level, result := outcomeOf(&web.Exchange{Method: method, Status: status}); level != want || result != meter.Refused {
				t.Errorf("%s: %d: %v %q, want %v", method, status, level, result, want)
			}
		}
	}
}

// Requests that send no file are not transfers. They appear neither in the metrics nor on the
// status page.
func TestHTTPTransfers(t *testing.T) {
	var ended []string
	counts := meter.New(meter.Config{Ended: func(e meter.Ended) { ended = append(ended, e.Detail.(*web.Exchange).Method) }})
	l := newLog(slog.New(slog.DiscardHandler), counts)
	defer l.Close()
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodPost} {
		l.ended(&web.Exchange{Method: method, Status: http.StatusForbidden})
	}
	if got := strings.Join(ended, " "); got != "GET HEAD PUT" {
		t.Errorf("the transfers are %s", got)
	}
}

// If a request was refused because descriptors were missing, its log line gives advice.
func TestHTTPLogNamesLimit(t *testing.T) {
	var out bytes.Buffer
	l := newLog(slog.New(slog.NewTextHandler(&out, nil)), nil)
	l.fewFiles = "raise ulimit -n"
	l.ended(&web.Exchange{Method: http.MethodGet, Name: "a", Status: http.StatusServiceUnavailable, Err: web.ErrManyOpen})
	l.ended(&web.Exchange{Method: http.MethodGet, Name: "b", Status: http.StatusServiceUnavailable, Err: web.ErrShutdown})
	l.Close()
	a, b, _ := strings.Cut(out.String(), "file=b")
	if !strings.Contains(a, `advice="raise ulimit -n"`) || b == "" || strings.Contains(b, "ulimit") {
		t.Errorf("the log has %s", &out)
	}
}

// However many requests for absent names a stranger sends, the log has a bounded number of short
// lines about them, and says how many it has left out. All lines about files that are there remain.
func TestHTTPLogFlood(t *testing.T) {
	var out bytes.Buffer
	l := newLog(slog.New(slog.NewTextHandler(&out, nil)), nil)
	const flood, files = 3000, 200
	long := "/" + strings.Repeat("\x01", 4000)
	peer := netip.MustParseAddrPort("192.0.2.1:5")
	fail := &fs.PathError{Op: "open", Path: long, Err: fs.ErrNotExist}
	kinds := []*web.Exchange{
		{Method: http.MethodGet, Status: http.StatusNotFound, Err: fail},
		{Method: http.MethodGet, Status: http.StatusForbidden, Err: fs.ErrPermission},
		{Method: http.MethodPut, Status: http.StatusForbidden, Err: fs.ErrPermission},
		{Method: http.MethodPut, Status: http.StatusAccepted},
		{Method: http.MethodDelete, Status: http.StatusNotFound, Err: fail},
		{Method: http.MethodGet, Status: http.StatusServiceUnavailable, Err: web.ErrManyOpen},
		{Method: http.MethodOptions, Status: http.StatusNoContent},
		{Method: "X" + long, Status: http.StatusMethodNotAllowed},
	}
	for i := range flood {
		x := kinds[i%len(kinds)]
		x.Name, x.Peer = long, peer
		l.ended(x)
		l.attempt(users.Event{Outcome: users.Refused, User: long, Peer: peer.Addr()})
	}
	for range files {
		l.ended(&web.Exchange{Method: http.MethodGet, Status: http.StatusOK, Name: "/there", Peer: peer})
		l.ended(&web.Exchange{Method: http.MethodHead, Status: http.StatusOK, Name: "/there", Peer: peer})
	}
	errors := stdlog.New(errorWriter{l}, "", 0)
	for range flood {
		errors.Print("http2: received GOAWAY " + long + long + long)
	}
	l.few.Flush()
	l.Close()
	requests, logins, there, broken, left := 0, 0, 0, 0, 0
	for line := range strings.Lines(out.String()) {
		most := 8 << 10
		switch {
		case strings.Contains(line, `msg="http: lines left out"`):
			var n int
			_, after, _ := strings.Cut(line, " lines=")
			if _, err := fmt.Sscan(after, &n); err != nil {
				t.Error(err)
			}
			left += n
			continue
		case strings.Contains(line, "file=/there"):
			there++
		case strings.Contains(line, `msg="http login"`):
			logins++
		case strings.Contains(line, "received GOAWAY"):
			broken++
			most = 4*maxServerError + 1<<10 // the text of a log shows a control character in 4 bytes
		default:
			requests++
		}
		if len(line) > most {
			t.Fatalf("a line has %d bytes", len(line))
		}
	}
	if requests > 200 || logins > 200 || requests == 0 || logins == 0 || broken > 200 || broken == 0 || requests+logins+broken+left != 3*flood || there != 2*files {
		t.Errorf("%d lines about requests, %d about logins, %d of net/http, %d left out, %d about a file that is there", requests, logins, broken, left, there)
	}
}

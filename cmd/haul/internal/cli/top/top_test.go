package top

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
)

// Without a terminal, the page of a server is printed once, without escape sequences.
func TestRun(t *testing.T) {
	b := &status.Board{Version: "v1.2.3", Protocols: []meter.Protocol{meter.TFTP}}
	b.Transfers = meter.New(meter.Config{Ended: b.Ended})
	b.Transfers.Begin(meter.Info{Protocol: meter.TFTP, Name: "kernel\x1b[2J", Size: 200}).Reached(50)
	b.Transfers.Begin(meter.Info{Protocol: meter.TFTP, Name: "initrd"}).End(meter.End{Result: meter.Failed, Err: errors.New("no space")})
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := status.Serve(t.Context(), socket, b, status.Config{Log: slog.New(slog.DiscardHandler)})
	defer s.Close()
	var out bytes.Buffer
	if err := Run(t.Context(), Config{URL: "http://" + s.Addr().String(), Every: time.Second, Out: &out}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"haul v1.2.3", "TFTP      1 under way", `kernel\x1b[2J`, "25 %", "read initrd from : failed: no space"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\r") {
		t.Errorf("an escape is in %q", out.String())
	}
}

// Each kind of unusable server yields an error with advice.
func TestErrors(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		switch {
		case strings.HasPrefix(r.URL.Path, "/locked/"):
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/host/"):
			http.Error(w, "no\x1bsuch host", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/login/") && name == "alice" && password == "secret":
			_, _ = io.WriteString(w, `{"started":"2026-11-26T12:00:00Z"}`)
		case strings.HasPrefix(r.URL.Path, "/empty/"):
			_, _ = io.WriteString(w, "{}")
		case strings.HasPrefix(r.URL.Path, "/moved/"):
			http.Redirect(w, r, strings.Replace(r.URL.Path, "moved", "login", 1), http.StatusFound)
		case strings.HasPrefix(r.URL.Path, "/endless/"):
			for _, err := io.WriteString(w, `{"version":"`); err == nil; _, err = w.Write(bytes.Repeat([]byte("v"), 1<<20)) {
			}
		default:
			_, _ = io.WriteString(w, "<html>")
		}
	})
	srv := httptest.NewServer(answer)
	defer srv.Close()
	with := func(path, user string) string {
		return strings.Replace(srv.URL, "http://", "http://"+user, 1) + path
	}
	secret := func(context.Context, string, string) (string, error) { return "secret", nil }
	for url, want := range map[string]struct {
		kind failure.Kind
		text string
	}{
		"ftp://host":               {failure.Usage, "URL of a status page"},
		"127.0.0.1:9070":           {failure.Usage, "http://127.0.0.1:9070"},
		with("/", "alice:secret@"): {failure.Usage, "--password-file"},
		with("/locked", ""):        {failure.Dial, "https://USER@"},
		with("/host", ""):          {failure.Remote, `no\x1bsuch host`},
		with("/", ""):              {failure.Remote, "no status page"},
		with("/empty", ""):         {failure.Remote, "no status page"},
		with("/endless", ""):       {failure.Remote, "no status page"},
		with("/moved", "alice@"):   {failure.Remote, "302"},
		"http://alice@192.0.2.1":   {failure.Usage, "https://192.0.2.1"},
		"http://127.0.0.1:1":       {failure.Dial, "--status"},
	} {
		err := Run(t.Context(), Config{URL: url, Every: time.Second, Out: io.Discard, Password: secret})
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", url, err)
		}
	}
	err := Run(t.Context(), Config{URL: with("/login", "alice@"), Every: time.Second, Out: io.Discard, Password: func(_ context.Context, user, host string) (string, error) {
		if user != "alice" || "http://"+host != srv.URL {
			t.Errorf("the password of %s at %s is asked for", user, host)
		}
		return "secret", nil
	}})
	if err != nil {
		t.Error(err)
	}
}

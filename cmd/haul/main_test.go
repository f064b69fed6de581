package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
)

// haul runs a command line in this process.
func haul(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs lockedBuffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := cmd.ExecuteContext(t.Context())
	if err != nil {
		code = exitCode(err)
		_, _ = errs.Write([]byte(err.Error())) // as main does
	}
	return code, out.String(), errs.String()
}

// wordAfter returns the word after a string, in plain lines and in JSON.
func wordAfter(text, before string) string {
	_, text, _ = strings.Cut(text, before)
	return text[:strings.IndexAny(text+"\n", " \n\"")]
}

// startServer serves a new directory with the given files, and returns the
// directory and the URL of its root.
func startServer(t *testing.T, uploads tftp.Uploads, files map[string]string) (dir, url string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		writeFile(t, filepath.Join(dir, name), content)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() }) // once the server has ended
	return dir, serveTFTP(t, tftp.Config{Store: localdir.New(root), Upload: uploads})
}

// serveTFTP runs a server until the test ends, and returns the URL of its root.
func serveTFTP(t *testing.T, s tftp.Config) (url string) {
	t.Helper()
	return "tftp://" + servetest.TFTP(t, s).String() + "/"
}

// The gravest of several errors decides, whatever their order.
func TestExitCodeOfSeveral(t *testing.T) {
	missing, local := failure.Remote.Errorf("get a: %w", fs.ErrNotExist), failure.Local.Errorf("write b: full")
	other := errors.New("get c: the content differs")
	for want, errs := range map[int][]error{
		exitFailed:      {other, other},
		exitNotFound:    {missing, other},
		exitLocal:       {missing, local, other},
		exitInterrupted: {errors.Join(other, local), context.Canceled},
		exitUsage:       {context.Canceled, failure.Usage.Errorf("--x: no")},
	} {
		for range 2 {
			if got := exitCode(errors.Join(errs...)); got != want {
				t.Errorf("%v: exit code %d, want %d", errs, got, want)
			}
			slices.Reverse(errs)
		}
	}
}

// TestNobodyListens takes as long as a client repeats its request if the socket does not report
// refusals, as on the portable path.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	closed, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	url := "tftp://" + closed.LocalAddr().String() + "/a"
	_ = closed.Close()
	code, _, msg := haul(t, "probe", url)
	if code != exitNoAnswer || !strings.Contains(msg, "no TFTP server listens there") && !strings.Contains(msg, "peer does not answer") {
		t.Errorf("exit code %d, %s", code, msg)
	}
}

func TestPrintError(t *testing.T) {
	var out bytes.Buffer
	printError(&out, errors.Join(errors.New("one"), fmt.Errorf("get x: %w", context.Canceled)))
	if got, want := out.String(), "haul: one\nhaul: get x: interrupted\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

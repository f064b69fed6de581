//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A signal that was ignored when haul started, as under nohup, stays ignored, in server and client.
// SIGTERM still ends haul.
func TestIgnoredSignals(t *testing.T) {
	server := startIgnoring(t, "HUP INT", append([]string{"serve", t.TempDir()}, anyPort...)...)
	server.awaitURL()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGHUP} {
		server.signal(s)
	}
	server.wantNoGet("none", exitNotFound)
	if said := server.stop(); strings.Contains(said, "second signal") {
		t.Error("SIGTERM was not the first signal")
	}

	l := startLab(t, nil)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	client := startIgnoringWith(t, in, "HUP", l.args("put", "-", "lab:f")...)
	_ = in.Close()
	awaitHidden(t, l.dir, "", func([]byte) bool { return true }) // the upload has begun
	client.signal(syscall.SIGHUP)
	if _, err := out.WriteString("content"); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	client.wantExit(0)
	wantFile(t, l.dir+"/f", "content")

	other := startIgnoring(t, "HUP", append([]string{"serve", t.TempDir()}, anyPort...)...)
	other.awaitURL()
	other.signal(syscall.SIGINT)
	other.wantExit(0)
}

// startIgnoring starts haul with some signals ignored.
func startIgnoring(t *testing.T, signals string, args ...string) *child {
	t.Helper()
	return startIgnoringWith(t, nil, signals, args...)
}

func startIgnoringWith(t *testing.T, stdin *os.File, signals string, args ...string) *child {
	t.Helper()
	return runChild(t, childOptions{stdin: stdin, ignored: signals}, args...)
}

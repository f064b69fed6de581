package main

import (
	"net"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/tftp"
)

// silentServer returns the URL of an open port that never answers.
func silentServer(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return "tftp://" + c.LocalAddr().String() + "/"
}

// However short the timeout is, a silent server counts as not answering, and not as one whose
// transfers failed.
func TestBenchNoAnswer(t *testing.T) {
	t.Parallel() // it waits most of the time
	url := silentServer(t)
	for _, args := range []string{
		"--timeout 100ms",
		"--timeout 100ms -n 4 -c 2 --json",
		"--timeout 100ms --warmup 1",
		"--timeout 100ms --put --size 2k --verify",
	} {
		code, stdout, msg := haul(t, append([]string{"bench", "tftp", url + "f{}"}, strings.Fields(args)...)...)
		if code != exitNoAnswer || stdout != "" || !strings.Contains(msg, "bench "+url+"f{}: nothing came in 100ms") {
			t.Errorf("%s: exit code %d, want %d, and nothing but that nothing came:\n%s%s", args, code, exitNoAnswer, stdout, msg)
		}
	}
}

// If a server does not answer, all clients stop as soon as they have repeated their requests.
func TestClientsNoAnswer(t *testing.T) {
	t.Parallel() // it waits most of the time
	url := silentServer(t)
	for _, args := range [][]string{
		{"get", "--timeout", "1s", url + "f", "-"},
		{"get", "--utimeout", "10ms", url + "f", "-"},
		{"probe", "--timeout", "1s", url + "f"},
		{"doctor", "--timeout", "100ms", url + "f"},
	} {
		t.Run(args[0]+args[1], func(t *testing.T) {
			if testing.Short() && args[2] == "1s" {
				t.Skip("it waits for 16 s, as long as haul repeats a request")
			}
			t.Parallel()
			if code, _, msg := haul(t, args...); code != exitNoAnswer || !strings.Contains(msg, "does not answer") {
				t.Errorf("exit code %d, want %d: %s", code, exitNoAnswer, msg)
			}
		})
	}
}

// Transfers that got an answer but did not finish count as failed.
func TestBenchAnswerIsNoSilence(t *testing.T) {
	_, url := startServer(t, tftp.NoUploads, nil)
	code, _, msg := haul(t, "bench", "tftp", url+"none")
	if code != exitFailed || !strings.Contains(msg, "bench "+url+"none: some transfers failed") {
		t.Errorf("exit code %d: %s", code, msg)
	}
}

// Errors of a benchmark name the URL, and never Go packages.
func TestBenchErrorsSpeakOfTheURL(t *testing.T) {
	t.Parallel() // it waits on systems that do not report refusals
	closed, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "tftp://" + closed.LocalAddr().String() + "/f"
	closed.Close()
	for _, c := range []struct{ url, args string }{
		{url, "--timeout 1s"},
		{url, "--timeout 1s --warmup 1"},
		{"tftp://host.invalid/f", ""},
	} {
		code, _, msg := haul(t, append([]string{"bench", "tftp", c.url}, strings.Fields(c.args)...)...)
		if code != exitNoAnswer || !strings.HasPrefix(msg, "bench "+c.url+": ") || strings.Contains(msg, "load:") {
			t.Errorf("%s %s: exit code %d, %q", c.url, c.args, code, msg)
		}
	}
}

// badBenchValues are values that a flag of "haul bench tftp" refuses, with a part of the message.
var badBenchValues = []struct{ flag, value, says string }{
	{"concurrency", "10001", "1 to 10000"},
	{"concurrency", "many", "whole number"},
	{"transfers", "-1", "above 0"},
	{"transfers", "1e3", "whole number"},
	{"names", "-1", "1 to"},
	{"rate", "fast", "a number"},
	{"rate", "-1", "above 0"},
	{"rate", "NaN", "above 0"},
	{"rate", "1e999", "out of range"},
	{"put", "maybe", "true or false"},
	{"size", "5x", "20MB (20,000,000 bytes)"},
	{"size", "", "MB"},
	{"size", "99999999999999999999", "MB"},
	{"blksize", "7", "8 to 65464"},
	{"blksize", "1k", "whole number"},
	{"windowsize", "65536", "1 to 65535"},
	{"no-options", "x", "true or false"},
	{"loss", "2", "a part"},
	{"loss", "1%", "a number"},
	{"seed", "-1", "0 or above"},
	{"timeout", "-1s", "above 0"},
	{"timeout", "10", "10s"},
	{"min-timer", "1m", "0 to 10s"},
	{"duration", "-1s", "above 0"},
	{"loops", "65", "1 to 64"},
	{"warmup", "-1", "0 or more"},
	{"pattern", "x", "true or false"},
	{"verify", "true", "--put"},
	{"json", "x", "true or false"},
}

func TestBenchBadValues(t *testing.T) {
	tested := map[string]bool{}
	for _, b := range badBenchValues {
		tested[b.flag] = true
		code, _, msg := haul(t, "bench", "tftp", "tftp://127.0.0.1/f", "--"+b.flag+"="+b.value)
		if code != exitUsage || !strings.HasPrefix(msg, "--"+b.flag) || !strings.Contains(msg, b.says) ||
			strings.Contains(msg, "load:") || strings.Contains(msg, "strconv") {
			t.Errorf("--%s=%s: exit code %d, %q; want %d, and %q", b.flag, b.value, code, msg, exitUsage, b.says)
		}
	}
	newBenchTFTP().Flags().VisitAll(func(f *pflag.Flag) {
		if !tested[f.Name] {
			t.Errorf("no bad value of --%s is tested", f.Name)
		}
	})
}

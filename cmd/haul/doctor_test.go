package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/doctor"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp"
)

// The doctor recognizes a stalling server by the time that answers take. Therefore its tests must
// not run at the same time as tests that keep the machine busy. They run at the same time as each
// other, because they wait most of the time.
func TestDoctor(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"finds haul well":       doctorFindsHaulWell,
		"exit code of warnings": doctorExitCodeOfWarnings,
		"strict":                doctorStrict,
		"exit codes":            doctorExitCodes,
		"reports failure":       doctorReportsFailure,
		"interrupted":           doctorInterrupted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// runDoctor runs "haul doctor" in this process.
func runDoctor(t *testing.T, ctx context.Context, args ...string) (code int, stdout string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRoot()
	if found, _, _ := cmd.Find([]string{"doctor"}); found == cmd {
		cmd.AddCommand(newDoctor())
	}
	cmd.SetArgs(append([]string{"doctor"}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if err = cmd.ExecuteContext(ctx); err != nil {
		code = exitCode(err)
	}
	return code, out.String(), err
}

// startPatient serves a file from memory, since a disk may stall for longer than the doctor waits.
// When the test ends, the server does not wait for transfers that clients abandon on purpose.
func startPatient(t *testing.T, uploads tftp.Uploads, content string) (url string) {
	t.Helper()
	mem := store.Mem(1 << 20)
	storetest.Put(t, mem, "f", content)
	return serveTFTP(t, tftp.Config{Store: mem, Upload: uploads, Grace: time.Millisecond})
}

func doctorFindsHaulWell(t *testing.T) {
	url := startPatient(t, tftp.CreateUploads, strings.Repeat("line\r\n", 5000))
	code, out, err := runDoctor(t, t.Context(), "--strict", "--upload", "new", url+"f")
	if code != 0 || err != nil {
		t.Errorf("exit code %d (%v), want 0\n%s", code, err, out)
	}
	for _, want := range []string{url + "f at 127.0.0.1", "U-Boot 2023 windowsize 16", "0 fail"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// On a path like this, haul accepts block sizes that need fragments unless --blksize bounds them.
// That is a warning, so it is a failure only with --strict.
func doctorExitCodeOfWarnings(t *testing.T) {
	url := startPatient(t, tftp.NoUploads, strings.Repeat("x", 3000))
	code, out, err := runDoctor(t, t.Context(), "--mtu", "576", "--json", url+"f")
	if code != 0 {
		t.Errorf("exit code %d (%v), want 0 for a warning", code, err)
	}
	var d doctor.Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if d.Verdict != doctor.Warning || len(d.Broken) != 1 || d.Broken[0].Name != "fragments" {
		t.Errorf("verdict %v, broken %v; want a warning of fragments", d.Verdict, d.Broken)
	}
	ok := func(r doctor.Report) bool {
		return r.Persona == "GRUB 2" && r.Verdict == doctor.OK && r.Bytes == 3000 && r.Whole
	}
	if !slices.ContainsFunc(d.Reports, ok) {
		t.Errorf("no report says that GRUB has its 3000 bytes: %+v", d.Reports)
	}
}

func doctorStrict(t *testing.T) {
	url := startPatient(t, tftp.NoUploads, strings.Repeat("x", 3000))
	if code, _, err := runDoctor(t, t.Context(), "--mtu", "576", "--strict", url+"f"); code != exitFailed || !errors.Is(err, errIll) {
		t.Errorf("strict: exit code %d (%v), want %d", code, err, exitFailed)
	}
}

func doctorExitCodes(t *testing.T) {
	url := startPatient(t, tftp.NoUploads, "x")
	silent, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, " is missing"},
		{[]string{"f"}, exitUsage, "tftp://"},
		{[]string{url}, exitUsage, "name"},
		{[]string{"--max-bytes", "-1", url + "f"}, exitUsage, "max-bytes"},
		{[]string{"--timeout", "-1s", url + "f"}, exitUsage, "timeout"},
		{[]string{"--mtu", "-1", url + "f"}, exitUsage, "--mtu"},
		{[]string{"--bogus", url + "f"}, exitUsage, "bogus"},
		{[]string{url + "missing"}, exitNotFound, "not found"},
		{[]string{url + ".."}, exitRefused, ".."},
		{[]string{"--timeout", "100ms", "tftp://" + silent.LocalAddr().String() + "/f"}, exitNoAnswer, "does not answer"},
		{[]string{"tftp://no-such-host.invalid/f"}, exitNoAnswer, "no-such-host"},
	} {
		code, _, err := runDoctor(t, t.Context(), c.args...)
		if code != c.code || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: exit code %d (%v), want %d and %q", c.args, code, err, c.code, c.says)
		}
	}
}

// A refused upload is a failure for one client.
func doctorReportsFailure(t *testing.T) {
	url := startPatient(t, tftp.NoUploads, "x")
	code, out, err := runDoctor(t, t.Context(), "--upload", "new", url+"f")
	if code != exitFailed || !errors.Is(err, errIll) {
		t.Errorf("exit code %d (%v), want %d", code, err, exitFailed)
	}
	if !strings.Contains(out, "upload fails: ERROR 2") || !strings.Contains(out, "What to do") {
		t.Errorf("the refusal and its advice are missing in\n%s", out)
	}
}

func doctorInterrupted(t *testing.T) {
	url := startPatient(t, tftp.NoUploads, "x")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel) // at any point: the result is the same
	if code, _, err := runDoctor(t, ctx, url+"f"); code != exitInterrupted {
		t.Errorf("exit code %d (%v), want %d", code, err, exitInterrupted)
	}
}

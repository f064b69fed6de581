package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// If the file is not served at all, Examine returns an error and no diagnosis.
func TestExamineNeedsAFileThatIsServed(t *testing.T) {
	server := serve(t, "f", file(10), tftp.NoUploads)
	mute := newFake(t, server, lie{request: swallow(func(*ask) bool { return true })})
	refuser := newFake(t, server, lie{request: refuse(transfer.AccessViolation, func(*ask) bool { return true })})
	quick := waits{retry: 10 * time.Millisecond}
	remote := func(code transfer.ErrorCode) func(error) bool {
		return func(err error) bool {
			fault, ok := errors.AsType[*transfer.Error](err)
			return ok && fault.Remote && fault.Code == code
		}
	}
	for _, c := range []struct {
		name string
		c    Config
		is   func(error) bool
		says string
	}{
		{"missing", Config{Target: target(server, "missing")}, remote(transfer.FileNotFound), "file not found"},
		{"refused", Config{Target: target(refuser.addr(), "f")}, remote(transfer.AccessViolation), "access violation"},
		{"silent", Config{Target: target(mute.addr(), "f"), waits: quick}, func(err error) bool { return errors.Is(err, transfer.ErrSilent) }, "sent 4 times"},
		{"no name", Config{Target: target(server, "")}, nil, "no file name"},
		{"no host", Config{Target: tftpclient.Target{Name: "f"}}, nil, "no host"},
		{"negative timeout", Config{Target: target(server, "f"), Timeout: -1}, nil, "timeout"},
		{"too many bytes", Config{Target: target(server, "f"), MaxBytes: MaxMaxBytes + 1}, nil, "max-bytes"},
		{"negative MTU", Config{Target: target(server, "f"), MTU: -1}, nil, "MTU"},
		{"NUL in the upload's name", Config{Target: target(server, "f"), Upload: "a\x00b"}, nil, "upload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Examine(t.Context(), c.c)
			if d != nil || err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !c.is(err) {
				t.Errorf("got %v, %v; want an error with %q", d, err, c.says)
			}
		})
	}
}

func TestExamineEndsWithItsContext(t *testing.T) {
	server := serve(t, "f", file(10), tftp.NoUploads)
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	f := newFake(t, server, lie{request: func(*flow, *ask) bool {
		if asked++; asked == 5 { // in the middle of the examination
			cancel()
		}
		return true
	}})
	c := Config{Target: target(f.addr(), "f"), waits: testWaits}
	if d, err := Examine(ctx, c); d != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v; want %v", d, err, context.Canceled)
	}
}

// If a server dies during the examination, the run takes no longer than the bound.
func TestRunIsBounded(t *testing.T) {
	server := serve(t, "f", file(10), tftp.NoUploads)
	examine := func(timeout time.Duration) (*Diagnosis, error) {
		f := newFake(t, server, lie{request: func(f *flow, _ *ask) bool {
			f.block++
			return len(f.flows) < 3
		}})
		begun := time.Now()
		d, err := Examine(t.Context(), Config{Target: target(f.addr(), "f"), Timeout: timeout, waits: testWaits})
		if took := time.Since(begun); took > maxRun*timeout+patience {
			t.Errorf("took %v", took)
		}
		return d, err
	}
	timeout := 100 * time.Millisecond
	d, err := examine(timeout)
	// On a slow machine the first answer may take longer.
	for errors.Is(err, transfer.ErrSilent) && timeout < patience {
		timeout *= 2
		d, err = examine(timeout)
	}
	if err != nil {
		t.Fatal(err)
	}
	if d.Verdict != Failed {
		t.Errorf("verdict %v of a dead server", d.Verdict)
	}
	for _, r := range d.Broken {
		switch r.Name {
		case ruleNoAnswer, ruleMalformed, ruleStalls:
		default:
			t.Errorf("a silent server is said to break %s", r.Name)
		}
	}
}

// The doctor fetches at most MaxBytes, and does not count the incomplete file as a fault of the
// server.
func TestBeginningOfALargeFile(t *testing.T) {
	server := serve(t, "f", file(300_000), tftp.NoUploads)
	d := examine(t, Config{Target: target(server, "f"), MaxBytes: 10_000})
	if d.Verdict != OK {
		t.Errorf("verdict %v: %+v", d.Verdict, d.Broken)
	}
	for _, r := range d.Reports {
		if r.Bytes > 10_000 || r.Whole {
			t.Errorf("%s fetched %d bytes, whole: %v", r.Persona, r.Bytes, r.Whole)
		}
	}
}

func TestDiagnosisAsText(t *testing.T) {
	d := Diagnosis{
		Target: "tftp://h/f", Server: "192.0.2.1:69", Verdict: Failed,
		Reports: []Report{
			{Persona: "a client", Sends: "octet", Bytes: 5, Whole: true, SHA256: "00", Took: time.Second},
			{Persona: "another", Sends: "octet", Verdict: Failed, Findings: []Finding{{ruleTimeout, Failed, "OACK"}}, Notes: []string{"a note"}},
		},
		Broken: []Rule{{ruleTimeout, "RFC", "do this"}},
	}
	var text bytes.Buffer
	if err := d.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const want = `tftp://h/f at 192.0.2.1:69

client or check  verdict      bytes    took  rules broken, or what it sends
a client         ok               5   1.00s  octet
another          fails            -   0.00s  timeout-changed

timeout-changed (RFC)
  another fails: OACK
  What to do: do this

Notes
  another: a note

1 ok, 0 with warnings, 1 fail, 0 skipped
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
	if err := d.WriteText(full{}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("writing failed with %v, want %v", err, fs.ErrClosed)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fs.ErrClosed }

func TestVerdictsInJSON(t *testing.T) {
	for v := range verdictNames {
		b, err := json.Marshal(Verdict(v))
		var back Verdict
		if err != nil || json.Unmarshal(b, &back) != nil || back != Verdict(v) {
			t.Errorf("%v became %s (%v) and %v", Verdict(v), b, err, back)
		}
	}
	var v Verdict
	if json.Unmarshal([]byte(`"fine"`), &v) == nil {
		t.Error("an unknown verdict was read")
	}
}

// The requests must be the same as those of the real clients, byte for byte.
func TestRequestsToTheByte(t *testing.T) {
	v := &visit{env: &env{name: "f"}}
	want := map[string]string{
		"curl 7.88":                 "\x00\x01f\x00octet\x00tsize\x000\x00blksize\x00512\x00timeout\x001\x00",
		"tftp-hpa 5.2":              "\x00\x01f\x00netascii\x00",
		"tftp-hpa 5.2 -m octet":     "\x00\x01f\x00octet\x00",
		"busybox 1.35":              "\x00\x01f\x00octet\x00tsize\x000\x00",
		"busybox 1.35 -b 1432":      "\x00\x01f\x00octet\x00blksize\x001432\x00tsize\x000\x00",
		"atftp 0.8":                 "\x00\x01f\x00octet\x00tsize\x00enable\x00blksize\x001432\x00windowsize\x008\x00",
		"U-Boot 2023":               "\x00\x01f\x00octet\x00timeout\x005\x00tsize\x004711\x00blksize\x001468\x00",
		"U-Boot 2023 windowsize 16": "\x00\x01f\x00octet\x00timeout\x005\x00tsize\x000\x00blksize\x001468\x00windowsize\x0016\x00",
		"barebox":                   "\x00\x01f\x00octet\x00timeout\x005\x00blksize\x001432\x00tsize\x000\x00windowsize\x0064\x00",
		"GRUB 2":                    "\x00\x01f\x00octet\x00blksize\x001024\x00tsize\x000\x00",
		"iPXE":                      "\x00\x01f\x00octet\x00blksize\x001432\x00tsize\x000\x00",
		"UEFI PXE (edk2)":           "\x00\x01f\x00octet\x00tsize\x000\x00blksize\x001468\x00",
		"Windows bootmgr":           "\x00\x01f\x00octet\x00tsize\x000\x00blksize\x001456\x00windowsize\x004\x00",
		"plain ROM":                 "\x00\x01f\x00octet\x00",
	}
	seen := map[string]bool{}
	for _, p := range personas() {
		if seen[p.name] {
			t.Errorf("two personas are called %s", p.name)
		}
		seen[p.name] = true
		if w, ok := want[p.name]; ok && string(p.get.request(v)) != w {
			t.Errorf("%s sends %q, want %q", p.name, p.get.request(v), w)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("no persona %s", name)
		}
	}
}

func TestFromNetascii(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "a\r\nb": "a\nb", "a\r\x00b": "a\rb", "\r": "\r", "\rx": "\rx", "\r\r\n": "\r\n", "\n": "\n",
	} {
		if got := fromNetascii.Replace(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// No packet of a server may make the doctor crash, or reach a terminal without being escaped.
func FuzzPacket(f *testing.F) {
	f.Add([]byte("\x00\x06blksize\x00512\x00"))
	f.Add([]byte("\x00\x06tsize\x00enable\x00x"))
	f.Add([]byte("\x00\x06BLKSIZE\x00999999999999999999999\x00timeout\x00\x00"))
	f.Add([]byte("\x00\x05\x00\x01no\x1b[31m"))
	f.Add([]byte("\x00\x03\x00\x01data"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := parsePacket(b)
		if s := p.String() + p.text(); strings.ContainsFunc(s, func(r rune) bool { return r != 0 && r < ' ' || r >= 0x7f }) {
			t.Errorf("%q is shown as %q", b, s)
		}
		if p.op != transfer.OptionAck {
			return
		}
		for _, who := range personas() {
			v := &visit{env: &env{}, report: &Report{}}
			d := who.get
			a, ok := d.judge(v, p)
			if !ok && len(v.report.Findings) == 0 {
				t.Errorf("%s gives up on %q and names no rule", who.name, b)
			}
			if ok && (a.blockSize < transfer.MinBlockSize || a.blockSize > transfer.MaxBlockSize || a.window < 1) {
				t.Errorf("%s takes %q for blksize %d and windowsize %d", who.name, b, a.blockSize, a.window)
			}
		}
	})
}

func ExampleExamine() {
	c := Config{
		Target:  tftpclient.Target{Host: "127.0.0.1", Port: 1, Name: "boot/kernel"},
		Timeout: 10 * time.Millisecond,
	}
	d, err := Examine(context.Background(), c)
	if err != nil {
		fmt.Println(err) // no server listens on that port
		return
	}
	for _, rule := range d.Broken {
		fmt.Println(rule.Name, rule.Advice)
	}
	// Output: doctor: tftp://127.0.0.1:1/boot/kernel at 127.0.0.1:1: peer does not answer to a plain read request, sent 4 times
}

//go:build unix

package sftpserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Without -e, messages are sent to the syslog, each as a datagram with its facility and severity,
// under the name of OpenSSH's sftp-server. Messages above the level are not sent.
func TestSyslog(t *testing.T) {
	for _, test := range []struct {
		level    Level
		facility Facility
		want     []string // severity and text
	}{
		{levelError, DefaultFacility, []string{`3 the session cannot begin in "[^"]*/missing": .*`}},
		{levelInfo, 10, []string{
			`3 the session cannot begin in "[^"]*/missing": .*`,
			`6 session opened for local user \S+ from \[UNKNOWN\]`,
			`6 open "[^"]*/new" flags WRITE`,
			`6 close "[^"]*/new" bytes read 0 written 4`,
			`6 session closed for local user \S+ from \[UNKNOWN\]`,
		}},
		{levelQuiet, DefaultFacility, nil},
	} {
		t.Setenv("SSH_CONNECTION", "")
		d := dir(t)
		socket := filepath.Join(d, "log")
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		p := run(t, Config{Start: filepath.Join(d, "missing"), Level: test.level, Facility: test.facility, syslog: socket})
		p.begin()
		h := p.open(filepath.Join(d, "new"))
		p.want(statusOK, typeWrite, h, int64(0), "text")
		p.want(statusOK, typeClose, h)
		if err := p.end(); err != nil {
			t.Error(err)
		}
		if p.log.String() != "" {
			t.Errorf("on standard error is %s", p.log.String())
		}
		end, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := end.Write([]byte("the end")); err != nil {
			t.Fatal(err)
		}
		_ = end.Close()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		for i := range len(test.want) + 1 {
			want := "^the end$"
			if i < len(test.want) {
				severity, text, _ := strings.Cut(test.want[i], " ")
				want = fmt.Sprintf(`^<%d>\S+ .*sftp-server\[%d\]: %s\n$`, int(test.facility)<<3|int(severity[0]-'0'), os.Getpid(), text)
			}
			b := make([]byte, 4096)
			n, err := c.Read(b)
			if err != nil || !regexp.MustCompile(want).Match(b[:n]) {
				t.Errorf("at level %v there is %q, %v; want %s", &test.level, b[:n], err, want)
			}
		}
		_ = c.Close()
	}
}

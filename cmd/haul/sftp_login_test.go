package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each reason for a failed connection has an exit code, and a message with advice.
func TestSSHExitCodes(t *testing.T) {
	l := startLab(t, map[string]string{"f": "content"})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()
	hangsUp := listen(t, func(c net.Conn) { _ = c.Close() })
	noSSH := listen(t, func(c net.Conn) {
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_ = c.Close()
	})
	otherKey := filepath.Join(l.home, "other")
	writeKey(t, otherKey)
	badConfig := filepath.Join(l.home, "bad")
	writeFile(t, badConfig, "Nonsense yes\n")
	unknown := filepath.Join(l.home, "nobody-known")

	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"nobody listens":    {[]string{"ls", "sftp://" + nobody + "/"}, exitNoAnswer, []string{"nothing listens at " + nobody}},
		"no such host":      {[]string{"ls", "host.invalid:"}, exitNoAnswer, []string{"host.invalid"}},
		"it hangs up":       {[]string{"ls", "sftp://" + hangsUp + "/"}, exitNoAnswer, []string{"broke"}},
		"no SSH":            {[]string{"ls", "sftp://" + noSSH + "/"}, exitNoAnswer, []string{"connect to"}},
		"another key":       {[]string{"ls", "-i", otherKey, "-o", "IdentityFile=" + otherKey, "-F", "none", "-o", "User=me", "-o", "UserKnownHostsFile=" + l.known, "-o", "IdentityAgent=none", l.url("/")}, exitRefused, []string{"permission denied", "tried", "other"}},
		"another user":      {[]string{"ls", "sftp://you@" + l.addr + "/"}, exitRefused, []string{"you@", "permission denied"}},
		"no key":            {[]string{"ls", "-o", "PubkeyAuthentication=no", l.url("/")}, exitRefused, []string{"permission denied", "-i FILE"}},
		"host not known":    {[]string{"ls", "-o", "UserKnownHostsFile=" + unknown, l.url("/")}, exitRefused, []string{"not known", "SHA256:", "accept-new"}},
		"bad setting":       {[]string{"ls", "-o", "Nonsense=yes", l.url("/")}, exitUsage, []string{"nonsense"}},
		"bad value":         {[]string{"ls", "-o", "Port=x", l.url("/")}, exitUsage, []string{"Port"}},
		"bad file":          {[]string{"ls", "-F", badConfig, "lab:"}, exitLocal, []string{"bad:1"}},
		"no such file":      {[]string{"ls", "-F", badConfig + ".none", "lab:"}, exitLocal, []string{"none"}},
		"bad port":          {[]string{"ls", "-P", "65536", "lab:"}, exitUsage, []string{"--port"}},
		"port 0":            {[]string{"ls", "-P", "0", "lab:"}, exitUsage, []string{"--port 0: choose 1 to 65535"}},
		"no algorithm":      {[]string{"ls", "-o", "Ciphers=aes128-cbc", l.url("/")}, exitRefused, []string{"aes128-cbc"}},
		"no jump host":      {[]string{"ls", "-J", nobody, "lab:"}, exitNoAnswer, []string{"nothing listens at " + nobody}},
		"a proxy that ends": {[]string{"ls", "-o", "ProxyCommand=exit 3", "lab:"}, exitNoAnswer, []string{"ProxyCommand"}},
		"TFTP":              {[]string{"ls", "tftp://host/"}, exitUsage, []string{"TFTP", "SFTP"}},
		"TFTP's stat":       {[]string{"stat", "tftp://host/f"}, exitUsage, []string{"haul probe"}},
		"local":             {[]string{"rm", "file"}, exitUsage, []string{"local file"}},
		"nothing":           {[]string{"df"}, exitUsage, []string{"LOCATION is missing"}},
	} {
		args := c.args
		if strings.Join(args, " ") == "df" {
			code, _, msg := haul(t, args...)
			if code != c.code || !strings.Contains(msg, c.says[0]) {
				t.Errorf("%s: exit code %d, %s", name, code, msg)
			}
			continue
		}
		code, _, msg := l.haul(args...)
		if code != c.code {
			t.Errorf("%s: haul %q: exit code %d, want %d: %s", name, args, code, c.code, msg)
		}
		for _, w := range c.says {
			if !strings.Contains(strings.ToLower(msg), strings.ToLower(w)) {
				t.Errorf("%s: haul %q does not say %q: %s", name, args, w, msg)
			}
		}
	}

	if code, _, msg := l.haul("ls", "-i", otherKey+".none", "lab:"); code != 0 || strings.Count(msg, "warning: -i "+otherKey+".none is left out: no such file") != 1 {
		t.Errorf("-i of a missing file beside a good IdentityFile: exit code %d, %s", code, msg)
	}
	l.know(newKey(t).PublicKey())
	if code, _, msg := l.haul("ls", "lab:"); code != exitRefused || !strings.Contains(msg, "CHANGED") || !strings.Contains(msg, "ssh-keygen -R") {
		t.Errorf("another host key: exit code %d, %s", code, msg)
	}
	if err := os.Remove(l.known); err != nil {
		t.Fatal(err)
	}
	if code, out, msg := l.haul("ls", "-o", "StrictHostKeyChecking=accept-new", "lab:"); code != 0 || out != "f\n" || !strings.Contains(msg, "was added to") {
		t.Errorf("accept-new: exit code %d, %s", code, msg)
	}
	l.must("ls", "lab:")
}

// listen accepts connections on a local port, and passes them to serve.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// Flags about the login override the configuration.
func TestLoginFlags(t *testing.T) {
	l := startLab(t, map[string]string{"f": ""})
	for name, args := range map[string][]string{
		"-i, -o and a URL with all": {"-F", "none", "-i", l.key, "-o", "UserKnownHostsFile=" + l.known, "-o", "IdentityAgent none", "sftp://me@" + l.addr + "/"},
		"-P":                        {"-F", "none", "-i", l.key, "-o", "UserKnownHostsFile=" + l.known, "-o", "IdentityAgent=none", "-P", l.port, "me@127.0.0.1:"},
		"-o User":                   {"-F", "none", "-i", l.key, "-o", "UserKnownHostsFile=" + l.known, "-o", "User=me", "-P", l.port, "-o", "IdentityAgent=none", "127.0.0.1:"},
		"the URL's port first":      {"-F", "none", "-i", l.key, "-o", "UserKnownHostsFile=" + l.known, "-o", "IdentityAgent=none", "-P", "1", "sftp://me@" + l.addr},
	} {
		code, out, msg := haul(t, append([]string{"ls", "--batch"}, args...)...)
		if code != 0 || out != "f\n" {
			t.Errorf("%s: exit code %d, %q, %s", name, code, out, msg)
		}
	}
}

// A connection through a proxy command runs over its pipes, not a socket.
func TestProxyCommand(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	l := startLab(t, map[string]string{"f": content})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asProxy, l.addr)
	l.configure("IdentityFile "+l.key, "ProxyCommand "+exe)
	if got := l.must("get", "lab:f", "-"); got != content {
		t.Errorf("%d bytes, want %d", len(got), len(content))
	}
}

// asProxy makes this test binary connect its standard input and output to an address.
const asProxy = "HAUL_TEST_AS_PROXY"

func runProxy(addr string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, c)
	os.Exit(0)
}

// Each server that a command names has exactly one connection.
func TestSeveralServers(t *testing.T) {
	a, b := startLab(t, map[string]string{"a": "1"}), startLab(t, map[string]string{"b": "2"})
	both := filepath.Join(a.home, "both")
	first, err := os.ReadFile(a.config)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(b.config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, both, strings.NewReplacer("Host lab twin 127.0.0.1", "Host lab twin").Replace(string(first))+
		strings.NewReplacer("Host lab twin 127.0.0.1", "Host other", "Host lab twin", "Host other").Replace(string(second)))
	code, out, msg := haul(t, "ls", "-F", both, "--batch", "lab:a", "other:b", "lab:a")
	if code != 0 || strings.Fields(out)[0] != "a" || !strings.Contains(out, "b\n") {
		t.Errorf("exit code %d, %q, %s", code, out, msg)
	}
}

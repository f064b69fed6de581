package openssh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// testSystem returns a system whose home is a temporary directory.
func testSystem(t testing.TB) *system {
	t.Helper()
	home := t.TempDir()
	for _, dir := range []string{".ssh", "etc"} {
		if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"SSH_AUTH_SOCK": "/run/agent", "SHELL": "/bin/sh", "WHERE": "/w"}
	return &system{
		home: home, user: "me", uid: "1000", hostname: "desk.example.org",
		userConfig:   filepath.Join(home, ".ssh", "config"),
		systemConfig: filepath.Join(home, "etc", "ssh_config"),
		systemDir:    filepath.Join(home, "etc"),
		env:          func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		lookup:       func(_ *reader, host string) bool { return host == "web.example.org." },
		locals:       func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("192.0.2.7")} },
	}
}

// resolveText resolves a target with the given user configuration.
func resolveText(t *testing.T, sys *system, text, target string, o Overrides) (*Destination, error) {
	t.Helper()
	writeFile(t, sys.userConfig, text)
	return resolve(withTimeout(t), sys, target, o, nil)
}

func TestResolve(t *testing.T) {
	type D = Destination
	tests := []struct {
		name, text, target string
		o                  Overrides
		got                func(D) any
		want               any
	}{
		{"nothing", "", "host", Overrides{}, func(d D) any { return []any{d.User, d.Host, d.Port, d.Policy, d.Jump == nil} }, []any{"me", "host", 22, Ask, true}},
		{"target first", "User u\nPort 1\n", "bob@host:2", Overrides{Options: []string{"User=x"}, Port: 3}, func(d D) any { return d.login() }, "bob@[host]:2"},
		{"overrides next", "User u\nPort 1\n", "host", Overrides{Options: []string{"User=x"}, Port: 3}, func(d D) any { return d.login() }, "x@[host]:3"},
		{"options in order", "Port 1\n", "host", Overrides{Options: []string{"Port=5", "port 6"}}, func(d D) any { return d.Port }, 5},
		{"first value", "Host h*\nPort 1\nHost host\nPort 2\n", "host", Overrides{}, func(d D) any { return d.Port }, 1},
		{"negated", "Host h* !host\nPort 1\nHost *\nPort 2\n", "host", Overrides{}, func(d D) any { return d.Port }, 2},
		{"name of alias", "Host a\nHostName %h.Example.ORG\n", "a", Overrides{}, func(d D) any { return d.Host }, "a.example.org"},
		{"match the name", "HostName b.org\nMatch host b.ORG\nPort 7\n", "a", Overrides{}, func(d D) any { return d.Port }, 7},
		{"match the alias", "HostName b.org\nMatch originalhost a\nPort 7\n", "a", Overrides{}, func(d D) any { return d.Port }, 7},
		{"match user", "Match user u*,!ux\nPort 7\n", "uy@a", Overrides{}, func(d D) any { return d.Port }, 7},
		{"match other user", "Match user u*,!ux\nPort 7\n", "ux@a", Overrides{}, func(d D) any { return d.Port }, 22},
		{"match negated", "Match !user u* localuser me\nPort 7\n", "x@a", Overrides{}, func(d D) any { return d.Port }, 7},
		{"match exec", "Match exec \"test %h.%r = a.%u\"\nPort 7\n", "a", Overrides{}, func(d D) any { return d.Port }, 7},
		{"match exec no", "Match exec false\nPort 7\n", "a", Overrides{}, func(d D) any { return d.Port }, 22},
		{"match exec not reached", "Match host b exec \"kill $PPID\"\nPort 7\n", "a", Overrides{NoExec: true}, func(d D) any { return d.Port }, 22},
		{"match exec in what does not apply", "Host b\nInclude exec\n", "a", Overrides{NoExec: true}, func(d D) any { return d.Port }, 22},
		{"match network", "Match localnetwork 10.0.0.0/8,192.0.2.0/24\nPort 7\n", "a", Overrides{}, func(d D) any { return d.Port }, 7},
		{"match tag", "Match tagged t*\nPort 7\n", "a", Overrides{Options: []string{"Tag tt"}}, func(d D) any { return d.Port }, 7},
		{"match sftp", "Match sessiontype subsystem command sftp\nPort 7\n", "a", Overrides{}, func(d D) any { return d.Port }, 7},
		{"match final", "Host a\nHostName b\nMatch final host b\nPort 7\nHost b\nUser u\n", "a", Overrides{}, func(d D) any { return d.login() }, "u@[b]:7"},
		{"match canonical", "Match canonical\nPort 7\n", "a", Overrides{}, func(d D) any { return d.Port }, 22},
		{"canonical", "CanonicalizeHostname yes\nCanonicalDomains example.com example.org\nHost web.example.org\nPort 7\nMatch canonical\nUser u\n", "WEB", Overrides{}, func(d D) any { return d.login() }, "u@[web.example.org]:7"},
		{"canonical has dots", "CanonicalizeHostname yes\nCanonicalDomains example.org\n", "web.x.y", Overrides{}, func(d D) any { return d.Host }, "web.x.y"},
		{"canonical but proxied", "CanonicalizeHostname yes\nCanonicalDomains example.org\nProxyCommand x\n", "web", Overrides{}, func(d D) any { return d.Host }, "web"},
		{"canonical always", "CanonicalizeHostname always\nCanonicalDomains example.org\nProxyCommand x\n", "web", Overrides{}, func(d D) any { return d.Host }, "web.example.org"},

		{"identities", "IdentityFile ~/a\nIdentityFile %d/b-%h-%r\nIdentityFile ${WHERE}/c\nIdentityFile ~/a\n", "u@h", Overrides{Identities: []string{"/i"}},
			func(d D) any { return strings.Join(d.IdentityFiles, " ") }, "/i HOME/a HOME/b-h-u /w/c"},
		{"no identities", "IdentityFile none\n", "h", Overrides{}, func(d D) any { return []any{len(d.IdentityFiles), d.DefaultIdentities} }, []any{0, false}},
		{"usual identities", "", "h", Overrides{}, func(d D) any { return []any{d.IdentityFiles[3], d.DefaultIdentities} }, []any{"HOME/.ssh/id_ed25519", true}},
		{"certificates", "CertificateFile /c-%p\nCertificateFile /d\n", "h", Overrides{}, func(d D) any { return strings.Join(d.CertificateFiles, " ") }, "/c-22 /d"},
		{"agent", "", "h", Overrides{}, func(d D) any { return d.IdentityAgent }, "/run/agent"},
		{"agent none", "IdentityAgent none\n", "h", Overrides{}, func(d D) any { return d.IdentityAgent }, ""},
		{"agent of environment", "IdentityAgent $WHERE\n", "h", Overrides{}, func(d D) any { return d.IdentityAgent }, "/w"},
		{"agent of no environment", "IdentityAgent $NOWHERE\n", "h", Overrides{}, func(d D) any { return d.IdentityAgent }, ""},
		{"agent by name", "IdentityAgent SSH_AUTH_SOCK\n", "h", Overrides{}, func(d D) any { return d.IdentityAgent }, "/run/agent"},
		{"agent path", "IdentityAgent ~/%u.sock\n", "h", Overrides{}, func(d D) any { return d.IdentityAgent }, "HOME/me.sock"},

		{"known hosts", "UserKnownHostsFile ~/k \"/a b\"\nGlobalKnownHostsFile none\n", "h", Overrides{},
			func(d D) any { return fmt.Sprintf("%q", d.knownHostsFiles()) }, `["HOME/k" "/a b"]`},
		{"usual known hosts", "", "h", Overrides{}, func(d D) any { return strings.Join(d.knownHostsFiles(), " ") },
			"HOME/.ssh/known_hosts HOME/.ssh/known_hosts2 HOME/etc/ssh_known_hosts HOME/etc/ssh_known_hosts2"},
		{"alias of keys", "HostKeyAlias k\n", "h:7", Overrides{}, func(d D) any { return d.name() }, "k"},
		{"name with port", "", "h:7", Overrides{}, func(d D) any { return d.name() }, "[h]:7"},
		{"accept-new", "StrictHostKeyChecking accept-new\nHashKnownHosts yes\n", "h", Overrides{}, func(d D) any { return []any{d.Policy, d.HashKnownHosts} }, []any{AcceptNew, true}},
		{"off", "StrictHostKeyChecking off\n", "h", Overrides{}, func(d D) any { return d.Policy }, Accept},
		{"strict", "StrictHostKeyChecking yes\n", "h", Overrides{}, func(d D) any { return d.Policy }, Strict},

		{"command", "ProxyCommand nc -x p %h %p # %n %r %%\n", "u@h:7", Overrides{}, func(d D) any { return d.ProxyCommand }, "nc -x p h 7 # h u %"},
		{"command none", "ProxyCommand none\nProxyJump j\n", "h", Overrides{}, func(d D) any { return []any{d.ProxyCommand, d.Jump == nil} }, []any{"", true}},
		{"jump", "Host h\nProxyJump u@j:7\n", "h", Overrides{}, func(d D) any { return d.Jump.login() + ">" + d.login() }, "u@[j]:7>me@h"},
		{"jumps", "Host h\nProxyJump a,b,[::1]:9\nHost b\nProxyJump never\nHost a\nProxyJump first\n", "h", Overrides{}, func(d D) any { return route(d) }, "me@first me@a me@b me@[::1]:9 me@h"},
		{"jump before command", "Host h\nProxyJump j\nProxyCommand c\n", "h", Overrides{}, func(d D) any { return []any{d.ProxyCommand, d.Jump.Host} }, []any{"", "j"}},
		{"jump of command line", "ProxyCommand c\n", "h", Overrides{Jump: "j"}, func(d D) any { return route(d) }, "me@j me@h"},
		{"jump none of command line", "ProxyJump j\n", "h", Overrides{Jump: "none"}, func(d D) any { return route(d) }, "me@h"},
		{"jump tokens", "Host h*\nProxyJump %r@gate-%h\n", "u@h1", Overrides{}, func(d D) any { return route(d) }, "u@gate-h1 u@h1"},
		{"jump with settings", "Host j\nUser ju\nHostName real\nPort 8\nHost h\nProxyJump j\n", "h", Overrides{}, func(d D) any { return route(d) }, "ju@[real]:8 me@h"},

		{"ciphers", "Ciphers aes128-cbc,aes256-ctr,umac-nonsense,aes256-ctr\n", "h", Overrides{}, func(d D) any { return d.Ciphers }, []string{"aes128-cbc", "aes256-ctr"}},
		{"ciphers appended", "Ciphers +aes128-cbc,aes256-ctr\n", "h", Overrides{}, func(d D) any { return d.Ciphers }, append(slices.Clone(defaultCiphers), "aes128-cbc")},
		{"no RC4", "Ciphers arcfour*,aes256-ctr\n", "h", Overrides{}, func(d D) any { return d.Ciphers }, []string{"aes256-ctr"}},
		{"ciphers by pattern", "Ciphers aes*-gcm*,aes256*\n", "h", Overrides{}, func(d D) any { return d.Ciphers }, []string{"aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr"}},
		{"no prompts", "NumberOfPasswordPrompts 0\n", "h", Overrides{}, func(d D) any { return d.NumberOfPasswordPrompts }, -1},
		{"ciphers removed", "Ciphers -aes128*,chacha*\n", "h", Overrides{}, func(d D) any { return d.Ciphers }, []string{"aes256-gcm@openssh.com", "aes192-ctr", "aes256-ctr"}},
		{"ciphers first", "Ciphers ^aes256-ctr\n", "h", Overrides{}, func(d D) any { return d.Ciphers[:2] }, []string{"aes256-ctr", "aes128-gcm@openssh.com"}},
		{"exchanges", "", "h", Overrides{}, func(d D) any { return d.KexAlgorithms[0] }, "mlkem768x25519-sha256"},
		{"host keys fixed", "HostKeyAlgorithms ssh-ed25519\n", "h", Overrides{}, func(d D) any { return d.FixedHostKeyOrder }, true},
		{"host keys more", "HostKeyAlgorithms +ssh-rsa\n", "h", Overrides{}, func(d D) any { return d.FixedHostKeyOrder }, false},

		{"methods", "PreferredAuthentications password,hostbased,publickey,x\nPasswordAuthentication no\n", "h", Overrides{}, func(d D) any { return d.AuthMethods }, []string{"publickey"}},
		{"no methods", "PasswordAuthentication no\nChallengeResponseAuthentication no\nPubkeyAuthentication no\n", "h", Overrides{}, func(d D) any { return d.AuthMethods }, []string{}},
		{"times", "ConnectTimeout 1m30s\nServerAliveInterval 2\nServerAliveCountMax 4\n", "h", Overrides{}, func(d D) any { return []any{d.ConnectTimeout, d.ServerAliveInterval, d.ServerAliveCountMax} }, []any{90 * time.Second, 2 * time.Second, 4}},
		{"family", "AddressFamily inet6\nBindAddress ::1\n", "h", Overrides{}, func(d D) any { return d.AddressFamily + d.BindAddress }, "tcp6::1"},
		{"rekey", "RekeyLimit 1G 1h\n", "h", Overrides{}, func(d D) any { return d.RekeyLimit }, uint64(1 << 30)},
		{"log level", "LogLevel error\n", "h", Overrides{}, func(d D) any { return d.NoBanner }, true},
		{"log level of a command line", "LogLevel QUIET\n", "h", Overrides{Options: []string{"LogLevel=INFO"}}, func(d D) any { return d.NoBanner }, false},
		{"ignored", "CheckHostIP yes\nPKCS11Provider none\nControlPath /x\nHost b\nCompression yes\n", "h", Overrides{}, func(d D) any { return strings.Join(d.Ignored, "; ") }, "checkhostip (HOME/.ssh/config:1)"},
		{"unknown but ignored", "IgnoreUnknown Foo*,Bar\nFooBar 1\nBar 2\nPort 7\n", "h", Overrides{}, func(d D) any { return d.Port }, 7},
		{"file", "Port 1\n", "h", Overrides{File: "none"}, func(d D) any { return d.Port }, 22},
		{"spaces", " \t Port\t=  7 # seven\r\n\f\n", "h", Overrides{}, func(d D) any { return d.Port }, 7},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if strings.Contains(test.text, "exec") && runtime.GOOS == "windows" {
				t.Skip("there is no sh")
			}
			sys := testSystem(t)
			writeFile(t, filepath.Join(sys.home, ".ssh", "exec"), "Match exec true\nPort 9\n")
			d, err := resolveText(t, sys, test.text, test.target, test.o)
			if err != nil {
				t.Fatal(err)
			}
			got, want := fmt.Sprint(test.got(*d)), fmt.Sprint(test.want)
			if got = strings.ReplaceAll(got, sys.home, "HOME"); got != want {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// route lists the hosts a connection goes through.
func route(d Destination) string {
	if d.Jump == nil {
		return d.login()
	}
	return route(*d.Jump) + " " + d.login()
}

func TestResolveFails(t *testing.T) {
	tests := []struct {
		name, text, target string
		o                  Overrides
		want               string
	}{
		{"keyword", "\nPrt 22\n", "h", Overrides{}, `config:2: there is no setting "prt"`},
		{"no argument", "Port\n", "h", Overrides{}, "config:1: port has no argument"},
		{"empty argument", "Port \"\"\n", "h", Overrides{}, "the argument is missing"},
		{"quotes", "User \"x\n", "h", Overrides{}, "quotation mark"},
		{"two arguments", "Port 1 2\n", "h", Overrides{}, `"2" is an argument too many`},
		{"port", "Port 65536\n", "h", Overrides{}, "none of 1 to 65535"},
		{"time", "ConnectTimeout 5x\n", "h", Overrides{}, "is no time"},
		{"long time", "ConnectTimeout 99999w\n", "h", Overrides{}, "is no time"},
		{"flag", "IdentitiesOnly maybe\n", "h", Overrides{}, `"maybe" is none of yes`},
		{"where it does not apply", "Host x\nPort nine\n", "h", Overrides{}, "config:2: port"},
		{"every fault", "A 1\nB 2\n", "h", Overrides{}, "config:2"},
		{"criterion", "Match frob x\n", "h", Overrides{}, `config:1: match: there is no criterion "frob"`},
		{"criterion alone", "Match host\n", "h", Overrides{}, "host has no argument"},
		{"all with others", "Match all host x\n", "h", Overrides{}, "all must be alone"},
		{"commands not allowed", "Match exec true\n", "h", Overrides{NoExec: true}, "commands are not allowed"},
		{"tokens", "HostName %n\n", "h", Overrides{}, "%n, which is not known here"},
		{"token at the end", "IdentityFile /x%\n", "h", Overrides{}, "ends with %"},
		{"environment", "IdentityFile ${NOWHERE}/x\n", "h", Overrides{}, "NOWHERE, which is not set"},
		{"environment open", "IdentityFile ${WHERE\n", "h", Overrides{}, "no whole ${NAME}"},
		{"ciphers", "Ciphers nonsense\n", "h", Overrides{}, "none is supported"},
		{"RC4", "Ciphers arcfour\n", "h", Overrides{}, "none is supported; there are aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,aes128-cbc,3des-cbc"},
		{"no ciphers", "Ciphers -*\n", "h", Overrides{}, "leaves nothing"},
		{"jump", "ProxyJump a,\n", "h", Overrides{}, "the host is empty"},
		{"jump to itself", "ProxyJump j\n", "h", Overrides{}, "me@j is reached through itself"},
		{"jumps in a circle", "Host a\nProxyJump b\nHost b\nProxyJump a\n", "a", Overrides{}, "me@a is reached through itself"},
		{"jumps without end", "Host h*\nProxyJump h%h\n", "h", Overrides{}, "goes through more than 8 hosts"},
		{"too many jumps", "ProxyJump a,b,c,d,e,f,g,h,i\n", "h", Overrides{}, "9 jump hosts"},
		{"refused", "RefuseConnection \"gone for good\"\n", "h", Overrides{}, "refuses h: gone for good"},
		{"fdpass", "ProxyUseFdpass yes\nProxyCommand x\n", "h", Overrides{}, "proxyusefdpass"},
		{"none and more", "UserKnownHostsFile none /x\n", "h", Overrides{}, `"none" must be alone`},
		{"line break for a shell", "ProxyCommand x %r\nUser \"a\nb\"\n", "h", Overrides{}, "quotation mark"},
		{"control characters for a shell", "ProxyCommand x %h\nHostName a\x01b\n", "h", Overrides{}, `would put "a\x01b" into a command`},
		{"control characters for exec", "User a\x1bb\nMatch exec \"x %r\"\n", "h", Overrides{}, "into a command"},
		{"option", "", "h", Overrides{Options: []string{"Prt=1"}}, `option "Prt=1": there is no setting`},
		{"option for files", "", "h", Overrides{Options: []string{"Match all"}}, "may only be in a file"},
		{"override jump", "", "h", Overrides{Jump: "a,,b"}, "the host is empty"},
		{"no file", "", "h", Overrides{File: "/nonexistent"}, "/nonexistent"},
		{"target", "", "a;b", Overrides{}, "characters that no host has"},
		{"include of itself", "Include config\n", "h", Overrides{}, "includes are 17 deep"},
		{"include too often", "Include ~/.ssh/*\nInclude ~/.ssh/*\n", "h", Overrides{}, "includes"},
		{"include of a directory", "Include ~/.ssh\n", "h", Overrides{}, "no regular file"},
		{"include of a bad file", "\n\nInclude bad\n", "h", Overrides{}, "bad:2: there is no setting"},
		{"include pattern", "Include [\n", "h", Overrides{}, "syntax error"},
		{"not canonical", "CanonicalizeHostname yes\nCanonicalizeFallbackLocal no\nCanonicalDomains example.org\n", "h", Overrides{}, "in none of the domains"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sys := testSystem(t)
			writeFile(t, filepath.Join(sys.home, ".ssh", "bad"), "Port 1\nFrob 2\n")
			if strings.HasPrefix(test.name, "include too") {
				_ = os.Remove(filepath.Join(sys.home, ".ssh", "bad"))
			}
			_, err := resolveText(t, sys, test.text, test.target, test.o)
			if err == nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// Includes apply where they stand. Their paths are relative to the directory of the user's or the
// system's file. Settings in an included file do not leak out of an enclosing Host block.
func TestInclude(t *testing.T) {
	sys := testSystem(t)
	dir := filepath.Join(sys.home, ".ssh", "conf.d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "10-a"), "Host other\nPort 1\n")
	writeFile(t, filepath.Join(dir, "20-b"), "Port 2\nHost *\nUser u\n")
	writeFile(t, sys.systemConfig, "Include sys\nUser late\nHashKnownHosts yes\n")
	writeFile(t, filepath.Join(sys.systemDir, "sys"), "ConnectTimeout 7\n")
	const text = "Host no\nInclude conf.d/*\nUser never\nHost yes\nInclude conf.d/* nonexistent\nPort 3\n"

	d, err := resolveText(t, sys, text, "yes", Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Port != 2 || d.User != "u" || d.ConnectTimeout != 7*time.Second || !d.HashKnownHosts {
		t.Errorf("got %s %v %v", d.login(), d.ConnectTimeout, d.HashKnownHosts)
	}
	d, err = resolveText(t, sys, text, "neither", Overrides{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Port != 22 || d.User != "late" {
		t.Errorf("got %s, and no include applies", d.login())
	}

	writeFile(t, sys.systemConfig, "Include ~/x\n")
	if _, err := resolveText(t, sys, "", "h", Overrides{}); err == nil || !strings.Contains(err.Error(), "there is no ~") {
		t.Errorf("got %v", err)
	}
}

// A configuration may be as large as real ones are, but not larger than the bounds.
func TestConfigBounds(t *testing.T) {
	sys := testSystem(t)
	text := strings.Repeat("Host "+strings.Repeat("x*y", 300)+"\nPort 1\n", 1000) + "Host *\nPort 7\n"
	d, err := resolveText(t, sys, text, strings.Repeat("xy", 100), Overrides{})
	if err != nil || d.Port != 7 {
		t.Errorf("got %v, %v", d, err)
	}
	if _, err := resolveText(t, sys, strings.Repeat("#", maxConfigFile+1), "h", Overrides{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
	for i := range maxConfigFiles {
		writeFile(t, filepath.Join(sys.home, ".ssh", fmt.Sprintf("part-%03d", i)), "")
	}
	if _, err := resolveText(t, sys, "Include part-*\n", "h", Overrides{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "files are included") {
		t.Errorf("got %v", err)
	}
	text = ""
	for i := range maxIdentities + 1 {
		text += fmt.Sprintf("IdentityFile /%d\n", i)
	}
	if _, err := resolveText(t, sys, text, "h", Overrides{}); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v", err)
	}
}

// A file is refused if other users could write commands into it.
func TestConfigOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing")
	}
	sys := testSystem(t)
	writeFile(t, sys.userConfig, "Include part\n")
	part := writeFile(t, filepath.Join(sys.home, ".ssh", "part"), "Port 7\n")
	for _, file := range []string{sys.userConfig, part} {
		if err := os.Chmod(file, 0o646); err != nil {
			t.Fatal(err)
		}
		_, err := resolve(withTimeout(t), sys, "h", Overrides{}, nil)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), file+": others may write to it") {
			t.Errorf("got %v", err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := resolve(withTimeout(t), sys, "h", Overrides{}, nil); err != nil || d.Port != 7 {
		t.Errorf("got %v, %v", d, err)
	}
}

// When the context ends, so does a command of Match exec.
func TestExecContext(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	file := writeFile(t, "config", "Match exec \"exec sleep 1000\"\nPort 7\n")
	if _, err := Resolve(ctx, "h", Overrides{File: file}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrConfig) {
		t.Errorf("got %v", err)
	}
}

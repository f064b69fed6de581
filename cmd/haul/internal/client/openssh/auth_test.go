package openssh

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestPassword(t *testing.T) {
	s := startServer(t, takesPassword("right"))
	dest := s.dest(t)
	p := &script{passwords: []string{"wrong", "right"}}
	var said []string
	d := &Dialer{Prompter: p, Notify: func(s string) { said = append(said, s) }}
	dialOK(t, d, dest)
	if asked := p.log(); len(asked) != 2 || asked[0] != "password bob@"+dest.name() {
		t.Errorf("asked %q", asked)
	}
	if len(said) != 1 || !strings.Contains(said[0], "try again") {
		t.Errorf("said %q", said)
	}
	// Another connection for the same user asks no question; a connection for another user does.
	dialOK(t, d, dest)
	if asked := p.log(); len(asked) != 0 {
		t.Errorf("asked %q again", asked)
	}
	dest.User = "eve"
	dialFails(t, d, dest, io.EOF) // the script is out of answers
}

func TestPasswordFails(t *testing.T) {
	s := startServer(t, takesPassword("right"))
	dest := s.dest(t)
	p := &script{passwords: []string{"hunter1", "hunter2", "hunter3", "hunter4", "right"}}
	err := dialError(t, &Dialer{Prompter: p}, dest, ErrAuth, "log in as bob@"+dest.name(), "server takes password", "tried password, password, password")
	if strings.Contains(fmt.Sprintf("%+v %#v", err, err), "hunter") {
		t.Errorf("a password is in %#v", err)
	}
	if len(p.log()) != 3 {
		t.Error("was not asked three times")
	}
	dest.NumberOfPasswordPrompts = 1
	dialFails(t, &Dialer{Prompter: p}, dest, ErrAuth)
	if len(p.log()) != 1 {
		t.Error("was not asked once")
	}

	dialFails(t, &Dialer{}, dest, ErrAuth, "nobody to ask for the password of bob@")
	dest.BatchMode = true
	dialFails(t, &Dialer{Prompter: p}, dest, ErrAuth, "nobody to ask")
	dest.BatchMode = false
	dest.AuthMethods = []string{"publickey"}
	dialFails(t, &Dialer{Prompter: p}, dest, ErrAuth, "permission denied (server takes password)")
	if len(p.log()) != 0 {
		t.Error("was asked")
	}
	// After the user cancels, there are no more questions.
	dest.AuthMethods = nil
	dialFails(t, &Dialer{Prompter: &script{}}, dest, io.EOF)
}

func TestKeysLeftOut(t *testing.T) {
	s := startServer(t, takes(newKey(t, "ed25519").PublicKey()))
	file, key := writeKey(t, "ed25519", "")
	rsa, _ := writeKey(t, "rsa", "")
	tests := []struct {
		name   string
		change func(*Destination)
		want   string
	}{
		{"missing", func(d *Destination) { d.IdentityFiles = []string{"/nonexistent/id"} }, "key /nonexistent/id is left out: "},
		{"garbage", func(d *Destination) { d.IdentityFiles = []string{writeFile(t, "id", "garbage")} }, "no key found"},
		{"directory", func(d *Destination) { d.IdentityFiles = []string{t.TempDir()} }, "it is a directory"},
		{"huge", func(d *Destination) {
			d.IdentityFiles = []string{writeFile(t, "id", strings.Repeat("x", maxKeyFile+1))}
		}, "are no key"},
		{"public alone", func(d *Destination) {
			d.IdentityFiles = []string{writeFile(t, "id", string(ssh.MarshalAuthorizedKey(key.PublicKey())))}
		}, "no agent has the rest"},
		{"not accepted", func(d *Destination) {
			d.IdentityFiles, d.PubkeyAlgorithms = []string{file}, []string{ssh.KeyAlgoRSASHA512}
		}, "PubkeyAcceptedAlgorithms"},
		{"short", func(d *Destination) { d.IdentityFiles, d.RequiredRSASize = []string{rsa}, 4096 }, "2048 bits"},
		{"no agent", func(d *Destination) { d.IdentityAgent = "/nonexistent/agent" }, "agent: "},
		{"offered", func(d *Destination) { d.IdentityFiles = []string{file} }, "tried key " + file + " (ssh-ed25519 SHA256:"},
		{"certificate missing", func(d *Destination) { d.CertificateFiles = []string{"/nonexistent/cert"} }, "certificate /nonexistent/cert is left out"},
		{"certificate a key", func(d *Destination) {
			d.CertificateFiles = []string{writeFile(t, "c", string(ssh.MarshalAuthorizedKey(key.PublicKey())))}
		}, "not one of a user"},
		{"certificate alone", func(d *Destination) {
			c := certify(t, key.PublicKey(), newKey(t, "ed25519"), ssh.UserCert, nil)
			d.CertificateFiles = []string{writeFile(t, "c", string(ssh.MarshalAuthorizedKey(c)))}
		}, "there is no key for it"},
		{"certificate of a host", func(d *Destination) {
			c := certify(t, key.PublicKey(), newKey(t, "ed25519"), ssh.HostCert, nil)
			d.IdentityFiles, d.CertificateFiles = []string{file}, []string{writeFile(t, "c", string(ssh.MarshalAuthorizedKey(c)))}
		}, "not one of a user"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dest := s.dest(t)
			test.change(&dest)
			dialFails(t, &Dialer{}, dest, ErrAuth, test.want)
		})
	}
	// A missing file with a default name is not mentioned.
	dest := s.dest(t)
	dest.IdentityFiles, dest.DefaultIdentities = []string{"/nonexistent/id"}, true
	if err := dialError(t, &Dialer{}, dest, ErrAuth); strings.Contains(err.Error(), "nonexistent") {
		t.Error(err)
	}
}

func TestUserCertificate(t *testing.T) {
	authority := newKey(t, "ed25519")
	checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return sameKey(k, authority.PublicKey()) }}
	var mu sync.Mutex
	var offered []string
	s := startServer(t, &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		mu.Lock()
		defer mu.Unlock()
		offered = append(offered, k.Type())
		return checker.Authenticate(c, k)
	}})
	bob := func(c *ssh.Certificate) { c.ValidPrincipals = []string{"bob"} }
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		for _, beside := range []bool{true, false} {
			file, key := writeKey(t, kind, "")
			text := string(ssh.MarshalAuthorizedKey(certify(t, key.PublicKey(), authority, ssh.UserCert, bob)))
			dest := s.dest(t)
			dest.IdentityFiles = []string{file}
			if beside {
				writeFile(t, file+"-cert.pub", text)
			} else {
				dest.CertificateFiles = []string{writeFile(t, "other", text)}
			}
			dialOK(t, &Dialer{}, dest)
			// The certificate comes before its key, which would count as a failure.
			if mu.Lock(); !strings.Contains(offered[0], "-cert-v01@") {
				t.Errorf("offered %v", offered)
			}
			offered = nil
			mu.Unlock()
		}
	}
}

// Servers count failures, so only a few keys are offered, and the configured ones first.
func TestMaxKeys(t *testing.T) {
	var mu sync.Mutex
	var offered int
	s := startServer(t, &ssh.ServerConfig{
		MaxAuthTries: 6,
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			mu.Lock()
			defer mu.Unlock()
			offered++
			return nil, errors.New("no")
		},
		PasswordCallback: takesPassword("x").PasswordCallback,
	})
	dest := s.dest(t)
	for range 12 {
		file, _ := writeKey(t, "ed25519", "")
		dest.IdentityFiles = append(dest.IdentityFiles, file)
	}
	dialOK(t, &Dialer{Prompter: &script{passwords: []string{"x"}}}, dest)
	mu.Lock()
	if offered != maxKeys {
		t.Errorf("%d keys were offered", offered)
	}
	mu.Unlock()
	dest.AuthMethods = []string{"publickey"}
	dialFails(t, &Dialer{}, dest, ErrAuth, "7 more keys were not offered", "IdentitiesOnly")
}

// A login may need several factors, among them two keys.
func TestSeveralFactors(t *testing.T) {
	file1, key1 := writeKey(t, "ed25519", "")
	file2, key2 := writeKey(t, "ecdsa", "")
	third := ssh.ServerAuthCallbacks{PasswordCallback: takesPassword("x").PasswordCallback}
	second := ssh.ServerAuthCallbacks{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if sameKey(k, key2.PublicKey()) {
			return nil, &ssh.PartialSuccessError{Next: third}
		}
		return nil, errors.New("not this key")
	}}
	s := startServer(t, &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if sameKey(k, key1.PublicKey()) {
			return nil, &ssh.PartialSuccessError{Next: second}
		}
		return nil, errors.New("not this key")
	}})
	dest := s.dest(t)
	dest.IdentityFiles = []string{file2, file1}
	dialOK(t, &Dialer{Prompter: &script{passwords: []string{"x"}}}, dest)
	dialFails(t, &Dialer{}, dest, ErrAuth, "the server took publickey, publickey, and wants more", "server takes password")
}

func TestKeyboardInteractive(t *testing.T) {
	s := startServer(t, &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		if _, err := ask("", "Welcome\x1b[2J", nil, nil); err != nil {
			return nil, err
		}
		first, err := ask("Login", "two things", []string{"Password: ", "Color\x07? "}, []bool{false, true})
		if err != nil {
			return nil, err
		}
		second, err := ask("", "", []string{"Code: "}, []bool{true})
		if err != nil || first[0] != "pw" || first[1] != "blue" || second[0] != "42" {
			return nil, fmt.Errorf("answers %q %q %v", first, second, err)
		}
		return nil, nil
	}})
	dest := s.dest(t)
	var challenges []Challenge
	p := &script{}
	p.interact = func(c Challenge) ([]string, error) {
		challenges = append(challenges, c)
		if len(c.Questions) == 2 {
			return []string{"pw", "blue"}, nil
		}
		return []string{"42"}, nil
	}
	var said []string
	dialOK(t, &Dialer{Prompter: p, Notify: func(s string) { said = append(said, s) }}, dest)
	if len(said) != 1 || said[0] != `Welcome\x1b[2J` {
		t.Errorf("said %q", said)
	}
	want := Challenge{User: "bob", Host: dest.name(), Name: "Login", Instruction: "two things", Questions: []Question{{"Password: ", false}, {`Color\x07? `, true}}}
	if len(challenges) != 2 || fmt.Sprint(challenges[0]) != fmt.Sprint(want) {
		t.Errorf("got %+v", challenges)
	}

	p.interact = func(c Challenge) ([]string, error) { return make([]string, len(c.Questions)), nil }
	p.log()
	dialFails(t, &Dialer{Prompter: p}, dest, ErrAuth, "tried keyboard-interactive, keyboard-interactive, keyboard-interactive")
	if asked := p.log(); len(asked) != 9 {
		t.Errorf("asked %q", asked)
	}
	p.interact = func(Challenge) ([]string, error) { return []string{"too few"}, nil }
	dialFails(t, &Dialer{Prompter: p}, dest, ErrAuth, "1 answers to 2 questions")
	dialFails(t, &Dialer{}, dest, ErrAuth, "nobody to ask what")
}

// PAM's request for a password by keyboard-interactive asks the user once.
func TestInteractivePassword(t *testing.T) {
	s := startServer(t, &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		a, err := ask("", "", []string{"Password: "}, []bool{false})
		if err != nil || a[0] != "pw" {
			return nil, errors.New("no")
		}
		return nil, nil
	}})
	p := &script{interact: func(Challenge) ([]string, error) { return []string{"pw"}, nil }}
	d := &Dialer{Prompter: p}
	dialOK(t, d, s.dest(t))
	dialOK(t, d, s.dest(t))
	if asked := p.log(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
}

// A configured password answers a password question on this host only, and the user is asked for no
// other.
func TestPasswordGiven(t *testing.T) {
	interactive := func(password string) *ssh.ServerConfig {
		return &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			a, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || a[0] != password {
				return nil, errors.New("no")
			}
			return nil, nil
		}}
	}
	for name, config := range map[string]func(string) *ssh.ServerConfig{"password": takesPassword, "keyboard-interactive": interactive} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, config("right"))
			p := &script{passwords: []string{"right"}, interact: func(Challenge) ([]string, error) { return []string{"right"}, nil }}
			d := &Dialer{Prompter: p}
			dest := s.dest(t)
			dest.Password = "wrong"
			dialFails(t, d, dest, ErrAuth, "tried", "the password given")
			dest.Password, dest.BatchMode = "right", true
			dialOK(t, d, dest)
			if asked := p.log(); len(asked) != 0 {
				t.Errorf("asked %q", asked)
			}

			// The password is not used for the jump host, which asks for a password too.
			jump := startServer(t, config("of the jump host")).dest(t)
			dest.Jump, dest.BatchMode = &jump, false
			p.passwords = []string{"of the jump host"}
			p.interact = func(Challenge) ([]string, error) { return []string{"of the jump host"}, nil }
			dialOK(t, d, dest)
			if asked := p.log(); len(asked) != 1 {
				t.Errorf("asked %q, want one question, of the jump host", asked)
			}
		})
	}
}

// A login ends if the server asks too many questions.
func TestEndlessQuestions(t *testing.T) {
	for _, n := range []int{1, 0, maxQuestions + 1} {
		s := startServer(t, &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			for {
				if _, err := ask("", "", make([]string, n), make([]bool, n)); err != nil {
					return nil, err
				}
			}
		}})
		p := &script{interact: func(c Challenge) ([]string, error) { return make([]string, len(c.Questions)), nil }}
		dialFails(t, &Dialer{Prompter: p}, s.dest(t), ErrAuth, "asks too much")
	}
}

func TestBanner(t *testing.T) {
	config := openServer()
	config.BannerCallback = func(ssh.ConnMetadata) string { return "Hello\x1b]0;x\a\r\nthere\n" }
	s := startServer(t, config)
	var said []string
	dialOK(t, &Dialer{Notify: func(s string) { said = append(said, s) }}, s.dest(t))
	if len(said) != 1 || said[0] != "Hello\\x1b]0;x\\x07\nthere" {
		t.Errorf("said %q", said)
	}
	dest := s.dest(t)
	dest.NoBanner = true
	if dialOK(t, &Dialer{Notify: func(s string) { said = append(said, s) }}, dest); len(said) != 1 {
		t.Errorf("said %q, and nothing was to be said", said)
	}
}

// The order of PreferredAuthentications decides.
func TestOrderOfMethods(t *testing.T) {
	file, key := writeKey(t, "ed25519", "")
	config := takes(key.PublicKey())
	config.PasswordCallback = takesPassword("x").PasswordCallback
	s := startServer(t, config)
	dest := s.dest(t)
	dest.IdentityFiles = []string{file}
	dest.AuthMethods = []string{"password", "publickey"}
	p := &script{passwords: []string{"x"}}
	dialOK(t, &Dialer{Prompter: p}, dest)
	if len(p.log()) != 1 {
		t.Error("the password did not come first")
	}
	dest.AuthMethods = []string{"publickey", "password"}
	dialOK(t, &Dialer{Prompter: p}, dest)
	if len(p.log()) != 0 {
		t.Error("the key did not come first")
	}
}

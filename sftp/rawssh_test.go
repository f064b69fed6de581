package sftp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
	"golang.org/x/crypto/ssh"
)

// A rawSSH is a client that sends anything a test wants, unlike x/crypto's. It supports one
// algorithm of each kind, and follows no rules.
type rawSSH struct {
	nc      net.Conn
	r       *bufio.Reader
	version string // version string of the server
	offer   rawKexInit
	id      []byte  // session identifier
	out, in *rawGCM // nil before the first key exchange
}

// rawKexInit is SSH_MSG_KEXINIT (RFC 4253, section 7.1).
type rawKexInit struct {
	Cookie                                         [16]byte `sshtype:"20"`
	Kex, HostKeys, CiphersIn, CiphersOut           []string
	MACsIn, MACsOut, CompressionIn, CompressionOut []string
	LanguagesIn, LanguagesOut                      []string
	Follows                                        bool
	Reserved                                       uint32
}

const rawVersion = "SSH-2.0-raw"

// Message numbers (RFC 4250, section 4.1).
const (
	msgIgnore          = 2
	msgServiceRequest  = 5
	msgServiceAccept   = 6
	msgNewKeys         = 21
	msgECDHInit        = 30
	msgUserauth        = 50
	msgUserauthFailure = 51
	msgUserauthOK      = 52
	msgUserauthPKOK    = 60
	msgGlobalSuccess   = 81
	msgGlobalFailure   = 82
	msgChannelOpen     = 90
	msgChannelConfirm  = 91
	msgOpenFailure     = 92
	msgWindowAdjust    = 93
	msgChannelData     = 94
	msgExtendedData    = 95
	msgChannelEOF      = 96
	msgChannelClose    = 97
	msgChannelRequest  = 98
	msgChannelSuccess  = 99
	msgPing            = 192
)

func newRawSSH(nc net.Conn) *rawSSH {
	return &rawSSH{nc: nc, r: bufio.NewReader(nc)}
}

// A rawGCM is aes128-gcm@openssh.com in one direction.
type rawGCM struct {
	aead  cipher.AEAD
	nonce []byte
}

func (g *rawGCM) next() {
	n := g.nonce[4:]
	binary.BigEndian.PutUint64(n, binary.BigEndian.Uint64(n)+1)
}

// write sends a message.
func (s *rawSSH) write(payload []byte) error {
	block, head := 8, 5
	if s.out != nil {
		block, head = 16, 1
	}
	pad := block - (head+len(payload))%block
	if pad < 4 {
		pad += block
	}
	plain := append([]byte{byte(pad)}, payload...)
	return s.writePlain(append(plain, make([]byte, pad)...))
}

// writePlain sends a packet as given, including its padding.
func (s *rawSSH) writePlain(plain []byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(plain)))
	if s.out == nil {
		b = append(b, plain...)
	} else {
		b = s.out.aead.Seal(b, s.out.nonce, plain, b)
		s.out.next()
	}
	_, err := s.nc.Write(b)
	return err
}

// read returns the next message.
func (s *rawSSH) read() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head))
	if n > 1<<20 {
		return nil, fmt.Errorf("a packet of %d bytes", n)
	}
	if s.in != nil {
		n += s.in.aead.Overhead()
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(s.r, b); err != nil {
		return nil, err
	}
	if s.in != nil {
		var err error
		if b, err = s.in.aead.Open(b[:0], s.in.nonce, b, head); err != nil {
			return nil, err
		}
		s.in.next()
	}
	if len(b) < 2 || int(b[0])+1 > len(b) {
		return nil, errors.New("bad padding")
	}
	return b[1 : len(b)-int(b[0])], nil
}

// wait returns the next message with the given message number, and skips others.
func (s *rawSSH) wait(number byte) ([]byte, error) {
	for {
		b, err := s.read()
		if err != nil || b[0] == number {
			return b, err
		}
	}
}

// hello exchanges versions and KEXINITs, and returns the two KEXINITs.
func (s *rawSSH) hello() ([]byte, []byte, error) {
	if _, err := io.WriteString(s.nc, rawVersion+"\r\n"); err != nil {
		return nil, nil, err
	}
	line, err := s.r.ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	s.version = strings.TrimRight(line, "\r\n")
	mine := s.kexInit()
	if err := s.write(mine); err != nil {
		return nil, nil, err
	}
	theirs, err := s.wait(20)
	if err == nil {
		err = ssh.Unmarshal(theirs, &s.offer)
	}
	return mine, theirs, err
}

// rekey exchanges keys again.
func (s *rawSSH) rekey() error {
	mine := s.kexInit()
	if err := s.write(mine); err != nil {
		return err
	}
	theirs, err := s.wait(20)
	if err != nil {
		return err
	}
	return s.exchange(mine, theirs)
}

func (s *rawSSH) kexInit() []byte {
	gcm, none := []string{ssh.CipherAES128GCM}, []string{"none"}
	return ssh.Marshal(&rawKexInit{
		Kex:       []string{ssh.KeyExchangeCurve25519, "kex-strict-c-v00@openssh.com"},
		HostKeys:  []string{ssh.KeyAlgoED25519},
		CiphersIn: gcm, CiphersOut: gcm,
		MACsIn: []string{ssh.HMACSHA256}, MACsOut: []string{ssh.HMACSHA256},
		CompressionIn: none, CompressionOut: none,
	})
}

// exchange exchanges keys after the KEXINITs.
func (s *rawSSH) exchange(mine, theirs []byte) error {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	public := private.PublicKey().Bytes()
	if err := s.write(ssh.Marshal(&struct {
		Public []byte `sshtype:"30"`
	}{public})); err != nil {
		return err
	}
	b, err := s.wait(31)
	if err != nil {
		return err
	}
	var reply struct {
		HostKey   []byte `sshtype:"31"`
		Public    []byte
		Signature []byte
	}
	if err := ssh.Unmarshal(b, &reply); err != nil {
		return err
	}
	peer, err := ecdh.X25519().NewPublicKey(reply.Public)
	if err != nil {
		return err
	}
	secret, err := private.ECDH(peer)
	if err != nil {
		return err
	}
	secret = bytes.TrimLeft(secret, "\x00")
	if secret[0]&0x80 != 0 {
		secret = append([]byte{0}, secret...)
	}
	var t []byte
	for _, part := range [][]byte{[]byte(rawVersion), []byte(s.version), mine, theirs, reply.HostKey, public, reply.Public, secret} {
		t = appendString(t, part)
	}
	hash := sha256.Sum256(t)
	if s.id == nil {
		s.id = hash[:]
	}
	if err := s.write([]byte{msgNewKeys}); err != nil {
		return err
	}
	key := func(letter byte, n int) []byte {
		k := appendString(nil, secret)
		k = append(append(append(k, hash[:]...), letter), s.id...)
		sum := sha256.Sum256(k)
		return sum[:n]
	}
	if _, err := s.wait(msgNewKeys); err != nil {
		return err
	}
	if s.out, err = newRawGCM(key('C', 16), key('A', 12)); err != nil {
		return err
	}
	s.in, err = newRawGCM(key('D', 16), key('B', 12))
	return err
}

func newRawGCM(key, nonce []byte) (*rawGCM, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &rawGCM{aead, nonce}, err
}

func appendString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// message builds a message from strings and numbers.
func message(number byte, fields ...any) []byte {
	b := []byte{number}
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			b = appendString(b, []byte(f))
		case []byte:
			b = appendString(b, f)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, f)
		case bool:
			if b = append(b, 0); f {
				b[len(b)-1] = 1
			}
		default:
			panic(fmt.Sprintf("a field of type %T", f))
		}
	}
	return b
}

// beginLogin exchanges keys, and requests the login service.
func (s *rawSSH) beginLogin() error {
	mine, theirs, err := s.hello()
	if err != nil {
		return err
	}
	if err := s.exchange(mine, theirs); err != nil {
		return err
	}
	return s.write(message(msgServiceRequest, "ssh-userauth"))
}

// login performs the complete handshake.
func (s *rawSSH) login() error {
	if err := s.beginLogin(); err != nil {
		return err
	}
	if err := s.write(message(msgUserauth, "alice", "ssh-connection", "password", false, testPassword)); err != nil {
		return err
	}
	_, err := s.wait(msgUserauthOK)
	return err
}

// loginByKey asks about one key, and logs in with another one.
func (s *rawSSH) loginByKey(user string, ask ssh.PublicKey, by ssh.Signer) error {
	if err := s.beginLogin(); err != nil {
		return err
	}
	if err := s.write(message(msgUserauth, user, "ssh-connection", "publickey", false, ask.Type(), ask.Marshal())); err != nil {
		return err
	}
	if _, err := s.wait(msgUserauthPKOK); err != nil {
		return err
	}
	request := message(msgUserauth, user, "ssh-connection", "publickey", true, by.PublicKey().Type(), by.PublicKey().Marshal())
	sig, err := by.Sign(rand.Reader, append(appendString(nil, s.id), request...))
	if err != nil {
		return err
	}
	if err := s.write(append(request, message(0, ssh.Marshal(sig))[1:]...)); err != nil {
		return err
	}
	for {
		b, err := s.read()
		switch {
		case err != nil:
			return err
		case b[0] == msgUserauthOK:
			return nil
		case b[0] == msgUserauthFailure:
			return errors.New("refused")
		}
	}
}

// A rawChannel is an SFTP session on a raw connection. It returns the window for received data to
// the server, unless the test prevents that.
type rawChannel struct {
	s            *rawSSH
	mine, theirs uint32
	pending      []byte
	granted      int64 // bytes of window from the server so far
	sent         int64 // bytes of data
}

// session begins a session.
func (s *rawSSH) session(t testing.TB) *sftpPeer {
	t.Helper()
	theirs, err := s.open(0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	p := &sftpPeer{t: t, rw: &rawChannel{s: s, theirs: theirs}}
	p.begin()
	return p
}

func (c *rawChannel) Write(p []byte) (n int, err error) {
	for n < len(p) {
		some := p[n:min(len(p), n+32<<10)]
		if err := c.s.write(message(msgChannelData, c.theirs, some)); err != nil {
			return n, err
		}
		n += len(some)
		c.sent += int64(len(some))
	}
	return n, nil
}

func (c *rawChannel) Read(p []byte) (int, error) {
	for len(c.pending) == 0 {
		b, err := c.s.read()
		if err != nil {
			return 0, err
		}
		switch {
		case len(b) < 5 || binary.BigEndian.Uint32(b[1:]) != c.mine:
		case b[0] == msgChannelData:
			c.pending = b[9:]
		case b[0] == msgWindowAdjust:
			c.granted += int64(binary.BigEndian.Uint32(b[5:]))
		case b[0] == msgChannelEOF, b[0] == msgChannelClose:
			return 0, io.EOF
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

// open opens an SFTP session with a window of the given size. It returns the server's channel
// number.
func (s *rawSSH) open(mine, window uint32) (uint32, error) {
	if err := s.write(message(msgChannelOpen, "session", mine, window, uint32(32<<10))); err != nil {
		return 0, err
	}
	b, err := s.wait(msgChannelConfirm)
	if err != nil {
		return 0, err
	}
	theirs := binary.BigEndian.Uint32(b[5:])
	if err := s.write(message(msgChannelRequest, theirs, "subsystem", true, "sftp")); err != nil {
		return 0, err
	}
	_, err = s.wait(msgChannelSuccess)
	return theirs, err
}

// newSlowRead makes a server with a slow tree and a session in which a file is open. The file
// fills one DATA packet.
func newSlowRead(t *testing.T) (w *testServer, slow *slowTree, s *rawSSH, p *sftpPeer, h string) {
	t.Helper()
	slow = &slowTree{}
	w = newTestServer(t, func(w *testServer, s *Server) {
		slow.Tree = w.tree
		s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) { return &Account{Tree: slow}, nil }
	})
	s = newRawSSH(w.connect("192.0.2.1"))
	if err := s.login(); err != nil {
		t.Fatal(err)
	}
	p = s.session(t)
	h = p.open("file", openAnew|wire.OpenRead)
	p.write(h, 0, testBytes(maxData))
	return w, slow, s, p, h
}

package sftp

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// serverVersion is the SSH version string that the server sends if the configuration sets none.
const serverVersion = "SSH-2.0-haul"

// The algorithms that are offered, best first. A key exchange that resists quantum computers comes
// first. Weak algorithms are missing: there is no SHA-1, CBC or DSA, and no group below 2048 bits.
// Strict key exchange is not listed because x/crypto always offers it.
var (
	keyExchanges = []string{
		ssh.KeyExchangeMLKEM768X25519,
		ssh.KeyExchangeCurve25519,
		ssh.KeyExchangeECDHP256,
		ssh.KeyExchangeECDHP384,
		ssh.KeyExchangeECDHP521,
		ssh.KeyExchangeDH16SHA512,
		ssh.KeyExchangeDH14SHA256,
	}
	ciphers = []string{
		ssh.CipherAES128GCM,
		ssh.CipherAES256GCM,
		ssh.CipherChaCha20Poly1305,
		ssh.CipherAES256CTR,
		ssh.CipherAES192CTR,
		ssh.CipherAES128CTR,
	}
	macs = []string{
		ssh.HMACSHA256ETM,
		ssh.HMACSHA512ETM,
		ssh.HMACSHA256,
		ssh.HMACSHA512,
	}
	signatures = []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
)

// prepared returns a copy of a configuration. If the version or a list of algorithms is empty, the
// copy has the server's default.
func prepared(c *ssh.ServerConfig) *ssh.ServerConfig {
	d := *c
	if len(d.KeyExchanges) == 0 {
		d.KeyExchanges = keyExchanges
	}
	if len(d.Ciphers) == 0 {
		d.Ciphers = ciphers
	}
	if len(d.MACs) == 0 {
		d.MACs = macs
	}
	if len(d.PublicKeyAuthAlgorithms) == 0 {
		d.PublicKeyAuthAlgorithms = signatures
	}
	if d.ServerVersion == "" {
		d.ServerVersion = serverVersion
	}
	return &d
}

// checkHostKey returns an error if the server has signed with SHA-1 to prove its identity. x/crypto
// lets clients choose SHA-1 for RSA keys and certificates of RSA keys, unless the signer is limited
// to other algorithms.
func checkHostKey(m ssh.ConnMetadata) error {
	c, ok := m.(ssh.AlgorithmsConnMetadata)
	if !ok {
		return nil
	}
	name := c.Algorithms().HostKey
	if name == ssh.KeyAlgoRSA || name == ssh.CertAlgoRSAv01 || strings.HasPrefix(name, "ssh-dss") {
		return fmt.Errorf("%w: the host key is used for %s, which is weak: ssh.NewSignerWithAlgorithms limits it", errOurs, name)
	}
	return nil
}

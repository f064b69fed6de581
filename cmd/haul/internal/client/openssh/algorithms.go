package openssh

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/haul-project/haul/internal/wildcard"
	"golang.org/x/crypto/ssh"
)

// These are the algorithms that are offered by default, the best ones first. The first key exchange
// is post-quantum. SHA-1 and CBC are left out. AES-GCM precedes other ciphers, because processors
// have instructions for it.
var (
	defaultKeyExchanges = []string{
		ssh.KeyExchangeMLKEM768X25519,
		ssh.KeyExchangeCurve25519,
		ssh.KeyExchangeECDHP256,
		ssh.KeyExchangeECDHP384,
		ssh.KeyExchangeECDHP521,
		ssh.KeyExchangeDH16SHA512,
		ssh.KeyExchangeDHGEXSHA256,
		ssh.KeyExchangeDH14SHA256,
	}
	defaultCiphers = []string{
		ssh.CipherAES128GCM,
		ssh.CipherAES256GCM,
		ssh.CipherChaCha20Poly1305,
		ssh.CipherAES128CTR,
		ssh.CipherAES192CTR,
		ssh.CipherAES256CTR,
	}
	defaultMACs = []string{
		ssh.HMACSHA256ETM,
		ssh.HMACSHA512ETM,
		ssh.HMACSHA256,
		ssh.HMACSHA512,
	}
	defaultHostKeyAlgorithms = []string{
		ssh.CertAlgoED25519v01,
		ssh.CertAlgoECDSA256v01,
		ssh.CertAlgoECDSA384v01,
		ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01,
		ssh.CertAlgoRSASHA256v01,
		ssh.KeyAlgoED25519,
		ssh.KeyAlgoECDSA256,
		ssh.KeyAlgoECDSA384,
		ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512,
		ssh.KeyAlgoRSASHA256,
	}
	defaultSignatures = []string{ // signature algorithms of certificate authorities
		ssh.KeyAlgoED25519,
		ssh.KeyAlgoECDSA256,
		ssh.KeyAlgoECDSA384,
		ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKED25519,
		ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoRSASHA512,
		ssh.KeyAlgoRSASHA256,
	}
	defaultPublicKeyAlgorithms = withCertificates(defaultSignatures)
)

// defaultRSABits is the smallest size of an RSA key unless RequiredRSASize sets another one.
const defaultRSABits = 2048

// The names of certificate algorithms end in certSuffix. The names of security-key algorithms end in
// vendor; in the names of their certificate algorithms, certSuffix replaces vendor.
const certSuffix, vendor = "-cert-v01@openssh.com", "@openssh.com"

// withCertificates returns the certificate algorithms of all algorithms in `plain`, followed by the
// algorithms in `plain` themselves.
func withCertificates(plain []string) []string {
	var all []string
	for _, a := range plain {
		all = append(all, strings.TrimSuffix(a, vendor)+certSuffix)
	}
	return append(all, plain...)
}

// plainAlgorithm returns the key algorithm of a certificate algorithm. cert is false if the
// algorithm is not a certificate algorithm.
func plainAlgorithm(algorithm string) (plain string, cert bool) {
	plain, cert = strings.CutSuffix(algorithm, certSuffix)
	if cert && strings.HasPrefix(plain, "sk-") {
		plain += vendor
	}
	return plain, cert
}

// keyType returns the type of the keys that can sign with an algorithm. RSA keys can sign with
// several algorithms.
func keyType(algorithm string) string {
	plain, _ := plainAlgorithm(algorithm)
	if plain == ssh.KeyAlgoRSASHA256 || plain == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return plain
}

// or returns `list` if it is not empty, and `otherwise` if it is. Callers pass haul's defaults as
// `otherwise`, because x/crypto/ssh would replace an empty list by its own defaults.
func or(list, otherwise []string) []string {
	if len(list) == 0 {
		return otherwise
	}
	return list
}

// algorithms returns a check that a configured list contains at least one of the algorithms in
// `universe`. The list may contain unknown names too, because OpenSSH supports more algorithms.
func algorithms(universe []string) check {
	return one(func(list string) error {
		if list[0] == '-' || list[0] == '+' || list[0] == '^' {
			return nil
		}
		if len(assemble(list, nil, universe)) == 0 {
			return fmt.Errorf("of %q none is supported; there are %s", list, strings.Join(universe, ","))
		}
		return nil
	})
}

// assemble applies a configured list of patterns to the defaults. Without a prefix, the matching
// algorithms replace the defaults. With the prefix "+" they are appended to the defaults, with "-"
// they are removed from the defaults, and with "^" they are put before the defaults. A pattern
// matches only algorithms in `universe`.
func assemble(list string, defaults, universe []string) []string {
	if list == "" {
		return defaults
	}
	named := func(list string) (names []string) {
		for pattern := range strings.SplitSeq(list, ",") {
			for _, name := range universe {
				if wildcard.Match(pattern, name) && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		return names
	}
	without := func(names, others []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(others, n) })
	}
	switch list[0] {
	case '+':
		return append(slices.Clone(defaults), without(named(list[1:]), defaults)...)
	case '^':
		first := named(list[1:])
		return append(first, without(defaults, first)...)
	case '-':
		return slices.DeleteFunc(slices.Clone(defaults), func(name string) bool { return matchList(name, list[1:]) })
	}
	return named(list)
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A Pair names the files of a certificate and of its key, in PEM. Both may be in the same file.
type Pair struct {
	Cert string // the certificate, followed by the intermediate certificates
	Key  string // the private key, not encrypted: ECDSA, RSA or Ed25519
}

// String returns the names of the files, for messages.
func (p Pair) String() string {
	if p.Key == p.Cert {
		return p.Cert
	}
	return p.Cert + " with key " + p.Key
}

// Dirs returns the directories in which new files of the pair appear: the directories of the two
// files, and, if these are symbolic links, as with certbot, the directories of their targets.
func (p Pair) Dirs() (dirs []string) {
	for _, file := range []string{p.Cert, p.Key} {
		dirs = append(dirs, filepath.Dir(file))
		if real, err := filepath.EvalSymlinks(file); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// maxCertFile is the maximum size of a file, in bytes. Certificate chains take some kilobytes.
const maxCertFile = 1 << 20

// young is the age up to which a file may change again without a new modification time, because
// file systems record times in steps of up to 2 s.
const young = 2 * time.Second

// pairFiles describes the two files of a pair at the time they were read.
type pairFiles struct {
	cert, key fileLook
	content   [sha256.Size]byte // hash of both files; a file that could not be read counts as empty
	fault     string            // why the files could not be read; empty if both could
	keyOpen   bool              // users other than the owner and the group may use the key file

	certPEM, keyPEM []byte // content of the files; nil after forget
}

// A fileLook describes a file at the time it was read.
type fileLook struct {
	path string
	info fs.FileInfo // nil if the file could not be read
	at   time.Time   // when the file was read
}

// unchanged reports whether the files need not be read again, because they look the same as at the
// last read. It follows symbolic links, because programs that renew certificates replace links.
func (f *pairFiles) unchanged() bool { return f.cert.unchanged() && f.key.unchanged() }

func (l *fileLook) unchanged() bool {
	if l.info == nil {
		return false
	}
	info, err := os.Stat(l.path)
	if err != nil {
		return false
	}
	age := l.at.Sub(l.info.ModTime())
	return os.SameFile(info, l.info) && info.Size() == l.info.Size() && info.ModTime().Equal(l.info.ModTime()) &&
		info.Mode() == l.info.Mode() && (age >= young || age <= -young)
}

// forget overwrites and drops the content of the files, which includes the private key.
func (f *pairFiles) forget() {
	clear(f.certPEM)
	clear(f.keyPEM)
	f.certPEM, f.keyPEM = nil, nil
}

// readPair reads both files. If it returns an error, f nevertheless contains the files that could
// be read.
func readPair(p Pair, now time.Time) (f pairFiles, err error) {
	var certErr, keyErr error
	f.cert, f.certPEM, certErr = readCertFile(p.Cert, now)
	if p.Key == p.Cert { // read it once: another process may replace it between two reads
		f.key, f.keyPEM = f.cert, f.certPEM
	} else {
		f.key, f.keyPEM, keyErr = readCertFile(p.Key, now)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %d\n%s%s", len(f.certPEM), len(f.keyPEM), f.certPEM, f.keyPEM)
	sum.Sum(f.content[:0])
	if f.key.info != nil && runtime.GOOS != "windows" { // Windows has no such permissions
		f.keyOpen = f.key.info.Mode().Perm()&0o007 != 0
	}
	if err = errors.Join(certErr, keyErr); err != nil {
		f.fault = err.Error()
	}
	return f, err
}

func readCertFile(path string, now time.Time) (look fileLook, text []byte, err error) {
	look = fileLook{path: path, at: now}
	// Check the type first: opening a pipe would wait for its other end.
	info, err := os.Stat(path)
	if err != nil {
		return look, nil, err
	}
	if !info.Mode().IsRegular() {
		return look, nil, fmt.Errorf("read %s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return look, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil { // describe the opened file: another file may have had that name before
		return look, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(f, maxCertFile+1))
	if err != nil {
		return look, nil, err
	}
	if len(text) > maxCertFile {
		return look, nil, fmt.Errorf("read %s: more than %d bytes; is it a certificate or a key?", path, maxCertFile)
	}
	look.info = info
	return look, text, nil
}

// parse returns the certificate in the files, with its key. It returns an error if a file is
// incomplete, or if the key does not belong to the certificate.
func (f *pairFiles) parse() (*tls.Certificate, error) {
	for _, file := range []struct {
		path string
		text []byte
	}{{f.cert.path, f.certPEM}, {f.key.path, f.keyPEM}} {
		if err := checkPEM(file.path, file.text); err != nil {
			return nil, err
		}
	}
	// X509KeyPair checks that the key belongs to the certificate.
	cert, err := tls.X509KeyPair(f.certPEM, f.keyPEM)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &cert, nil
}

// checkPEM returns an error for mistakes that package tls would ignore, or describe less clearly.
func checkPEM(path string, text []byte) error {
	begun, whole := bytes.Count(text, []byte("-----BEGIN ")), 0
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if strings.Contains(block.Type, "ENCRYPTED") || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return fmt.Errorf("%s: the key is encrypted, and a server cannot ask for its passphrase; \"openssl pkey -in %s\" prints it decrypted", path, path)
		}
		whole++
		text = rest
	}
	switch {
	case begun == 0:
		return fmt.Errorf("%s: nothing in it is PEM, which begins with \"-----BEGIN\"", path)
	case whole < begun:
		return fmt.Errorf("%s: it is cut off or broken: of %d parts that begin, %d are whole", path, begun, whole)
	}
	return nil
}

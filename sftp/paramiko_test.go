package sftp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// paramikoCheck requests hashes as paramiko's SFTPFile.check does, and compares them with those
// of the data that it reads.
const paramikoCheck = `
import hashlib, sys, paramiko
port, keyfile, hostkey = int(sys.argv[1]), sys.argv[2], sys.argv[3]
t = paramiko.Transport(("127.0.0.1", port))
t.start_client(timeout=60)
if t.get_remote_server_key().get_base64() != hostkey:
    sys.exit("another host key")
t.auth_publickey("alice", paramiko.Ed25519Key(filename=keyfile))
sftp = paramiko.SFTPClient.from_transport(t)
with sftp.open("file") as f:
    data = f.read()
    for alg in ("md5", "sha1", "sha256", "sha512"):
        h = lambda b: hashlib.new(alg, b).digest()
        cases = [
            ((), h(data)),
            ((1000, 500), h(data[1000:1500])),
            ((7, 0, 4096), b"".join(h(data[i:i + 4096]) for i in range(7, len(data), 4096))),
        ]
        for args, want in cases:
            if f.check(alg, *args) != want:
                sys.exit("%s %s: another hash" % (alg, args))
    try:
        f.check("crc32")
        sys.exit("crc32 is known")
    except IOError:
        pass
    if f.check("crc32,md5") != hashlib.md5(data).digest():
        sys.exit("a list of algorithms")
print("checked", len(data))
t.close()
`

// The server accepts paramiko's check-file, and paramiko understands its reply. The rest of
// paramiko's client is tested in package interop.
func TestParamikoCheck(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	peers, err := filepath.Abs("../bin/peers/python3-paramiko/usr/lib/python3/dist-packages")
	if err != nil {
		t.Fatal(err)
	}
	path := "PYTHONPATH=" + strings.Join([]string{os.Getenv("PYTHONPATH"), peers}, string(os.PathListSeparator))
	command := func(args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		t.Cleanup(cancel)
		c := exec.CommandContext(ctx, python, args...)
		c.Env = append(os.Environ(), path)
		return c
	}
	if out, err := command("-c", "import paramiko").CombinedOutput(); err != nil {
		t.Skipf("no paramiko: %v: %s", err, out[max(0, len(out)-200):])
	}
	o := newOpenSSHClient(t, "python3", nil)
	data := testBytes(300_001)
	o.file(o.served, "file", data)
	out, err := command("-c", paramikoCheck, o.port, o.keyFile, o.hostKey).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprint("checked ", len(data))) {
		t.Errorf("%v: %s", err, out)
	}
}

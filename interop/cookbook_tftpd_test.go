//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Haul replaces tftpd-hpa as in the recipe, and answers in the same way.
func TestCookbookTFTPD(t *testing.T) {
	t.Parallel()
	scripts := recipe(t, "In place of tftpd-hpa", 3)
	m := newcomer(t)
	m.unpack(t, "tftpd-hpa")
	m.run(t, `install -m 755 bin/haul /usr/bin/haul
install -m 644 packaging/systemd/haul.service /etc/systemd/system/
mkdir -p /etc/haul
id tftp 2>/dev/null || useradd --system --home-dir /srv/tftp --shell /usr/sbin/nologin tftp
mkdir -p /srv/tftp/boot
echo A configuration >/srv/tftp/boot/bcd
head -c 100000 /dev/zero >/srv/tftp/kernel
cat >/etc/default/tftpd-hpa <<'END'
TFTP_USERNAME="tftp"
TFTP_DIRECTORY="/srv/tftp"
TFTP_ADDRESS=":69"
TFTP_OPTIONS="--secure --map-file /etc/tftpd.map --blocksize 1468"
END
cat >/etc/tftpd.map <<'END'
rg \\ /
ri ^/?boot/bcd boot/bcd
a ^secret
END
systemctl daemon-reload
systemctl start tftpd-hpa`)
	lanOf(t, m)
	d := cookDesk(t, m, cookClient)
	answers := func() (all []string) {
		for _, name := range []string{"kernel", "/kernel", `Boot\BCD`, `\Boot\BCD`, "secret", "nowhere"} {
			for _, options := range [][]string{nil, {"blksize", "1000"}, {"blksize", "8192", "tsize", "0"}, {"tsize", "0", "timeout", "3"}} {
				a := d.ask(t, cookClient, port69(cookServer))
				first, err := a.begin(readOp, name, options...)
				answer := fmt.Sprintf("%s %q: opcode %d", name, options, first.op)
				switch first.op {
				case errorOp:
					answer += fmt.Sprint(" code ", first.number)
				case optionsOp:
					answer += fmt.Sprintf(" %q", bytes.ToLower(first.data))
				}
				if err == nil && first.op != errorOp {
					var file []byte
					file, err = a.readOn(first)
					answer += fmt.Sprintf(" %d bytes", len(file))
				}
				if err != nil {
					t.Fatalf("%s: %v", answer, err)
				}
				all = append(all, answer)
			}
		}
		return all
	}
	before := answers()
	for _, script := range scripts[:2] {
		wantDialogue(t, m.try, script)
	}
	const taken = "address already in use: another server has that port"
	if out, err := m.try("haul serve --config /etc/haul/haul.toml"); err == nil || !strings.Contains(out, taken) {
		t.Errorf("beside tftpd-hpa: %v, %s", err, out)
	}
	m.run(t, scripts[2])
	for i, now := range answers() {
		if now != before[i] {
			t.Errorf("tftpd-hpa: %s\nhaul:      %s", before[i], now)
		}
	}
}

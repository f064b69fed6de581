//go:build linux

package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Behind nginx, haul knows its clients' addresses, and accepts uploads that nginx would limit.
func TestCookbookNginx(t *testing.T) {
	t.Parallel()
	const size = 31_500_000
	scripts := recipe(t, "Behind nginx", 3)
	m := newcomer(t)
	m.unpack(t, "nginx", "libnginx-mod-stream")
	m.run(t, "install -m 755 bin/haul /usr/bin/haul\n"+
		"install -m 644 packaging/systemd/haul.service /etc/systemd/system/\n"+
		"install -D -m 644 packaging/haul.toml /etc/haul/haul.toml\n"+
		"mkdir -p /srv/tftp /etc/nginx/modules-enabled /etc/nginx/conf.d /etc/nginx/sites-enabled /var/log/nginx /var/lib/nginx\n"+
		"ln -s /usr/share/nginx/modules-available/mod-stream.conf /etc/nginx/modules-enabled/50-mod-stream.conf\n"+
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=files -addext subjectAltName=IP:"+cookServer+
		" -keyout /etc/ssl/files.key -out /etc/ssl/files.crt 2>&1\n"+
		"cat >/etc/nginx/sites-enabled/site <<'END'\nserver {\nlisten 8443 ssl;\nssl_certificate /etc/ssl/files.crt;\nssl_certificate_key /etc/ssl/files.key;\n"+scripts[2]+"}\nEND\n"+
		"systemctl daemon-reload\nsystemctl enable --now haul nginx")
	lanOf(t, m)
	d := cookDesk(t, m, cookClient)
	b, err := os.ReadFile(m.path("/etc/ssl/files.crt"))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, d.dir, map[string][]byte{"disk.img": content(size), "files.crt": b})
	m.run(t, scripts[0])
	listens := func() { // nginx confirms a reload before it is finished
		d.run(t, "until curl --insecure --silent --show-error --output /dev/null https://"+cookServer+"; do sleep 0.1; done")
	}
	listens()
	wantDialogue(t, d.try(t), scripts[1])
	wantFile(t, m.path("/var/lib/haul-uploads/disk.img"), content(size))
	const below = " https://" + cookServer + ":8443/files/"
	d.run(t, "haul put --cacert files.crt disk.img"+below+"again.img")
	d.run(t, "haul get --cacert files.crt"+below+"again.img got.img")
	wantFile(t, filepath.Join(d.dir, "got.img"), content(size))
	said := m.run(t, "journalctl --no-pager -u haul -o cat")
	for _, want := range []string{"file=/disk.img peer=" + cookClient + ":", "file=/again.img peer=127.0.0.1:"} {
		if !strings.Contains(said, want) {
			t.Errorf("haul has not logged %s:\n%s", want, said)
		}
	}
	for _, fault := range []struct{ spoil, ask, see, want string }{
		{"sed -i 's/client_max_body_size 0;//' /etc/nginx/sites-enabled/site", "haul put --cacert files.crt disk.img" + below + "third.img", "", "413"},
		{"chgrp root /run/haul-http.sock", "curl --insecure https://" + cookServer, "cat /var/log/nginx/error.log", "connect() to unix:/run/haul-http.sock failed (13: Permission denied)"},
		{"chgrp www-data /run/haul-http.sock; sed -i '/proxy_protocol/d' /etc/nginx/modules-enabled/90-haul.conf", "curl --insecure https://" + cookServer, "journalctl --no-pager -u haul -o cat", `cause="no PROXY header"`},
	} {
		m.run(t, fault.spoil+"\nsystemctl restart nginx")
		out, err := d.try(t)(fault.ask)
		m.await(t, fault.want, func() bool {
			if fault.see != "" {
				out = m.run(t, fault.see)
			}
			return strings.Contains(out, fault.want)
		})
		if err == nil {
			t.Errorf("after %s, %s succeeds", fault.spoil, fault.ask)
		}
	}
}

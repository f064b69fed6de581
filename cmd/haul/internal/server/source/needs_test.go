package source

import "testing"

// In some directories, files are replaced by new ones with the same name, so the directory has to
// be readable. In other directories only the file has to be.
func TestIsOwn(t *testing.T) {
	for dir, want := range map[string]bool{
		"/home/haul/.ssh": true, "/home/haul/.aws": true, "/run/haul": true, "/var/run/secrets/eks.amazonaws.com/serviceaccount": true,
		"/home/haul": false, "/run": false, "/var/run": false, "/srv": false, "/": false,
	} {
		if got := isOwn(dir); got != want {
			t.Errorf("isOwn(%s) = %v", dir, got)
		}
	}
}

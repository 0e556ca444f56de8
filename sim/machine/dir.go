package machine

import "path"

// MakeDir makes a directory and its missing parents, and makes all names on the way to it durable, also those that are there already: a process that crashed may have made them, and no more.
func MakeDir(d Disk, dir string) error {
	if err := d.Mkdir(dir); err != nil {
		return err
	}
	for dir != "" {
		dir = Parent(dir)
		if err := d.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Parent is the directory that holds a path; "" is the root.
func Parent(name string) string {
	if p := path.Dir(name); p != "." && p != "/" {
		return p
	}
	return ""
}

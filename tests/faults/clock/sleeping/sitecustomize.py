"""Under faketime time.sleep fails with "Invalid argument", and so would whoever waits for a lock: sleep by select."""

import select
import time

time.sleep = lambda seconds: select.select([], [], [], seconds) and None

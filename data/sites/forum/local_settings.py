"""Settings of the forum on top of those that `spirit startproject` wrote: loopback only, no mail, no rate limits."""

from mysite.settings.base import *  # noqa: F403

DEBUG = False
SECRET_KEY = "local test site, holds no secret"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SITE_DATABASE", os.path.join(BASE_DIR, "db.sqlite3")),
        "OPTIONS": {"timeout": 20},
    }
}  # noqa: F405
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "st_rate_limit": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "st_rl", "TIMEOUT": None},
}
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MIDDLEWARE = ["django.middleware.security.SecurityMiddleware", "whitenoise.middleware.WhiteNoiseMiddleware", *MIDDLEWARE]  # noqa: F405
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
ST_RATELIMIT_ENABLE = False
ST_DOUBLE_POST_THRESHOLD_MINUTES = 0
ST_TASK_MANAGER = None
ST_SITE_URL = "http://127.0.0.1/"
